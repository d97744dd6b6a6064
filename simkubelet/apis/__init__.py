"""The kubelet's wire contracts.

``deviceplugin`` (v1beta1), ``pluginregistration`` (v1), ``podresources`` (v1) and ``podresources_v1alpha1``.

One module per API, with its messages and the constants that both sides agree on. The messages live in a descriptor
pool of our own (``_pool``). ``grpcwire`` is what goes over the sockets.
"""
