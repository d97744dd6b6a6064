"""What a plugin and a kubelet share: the kubelet's wire contracts, and what both use to keep them.

``deviceplugin`` (v1beta1), ``dra`` (v1, v1beta1), ``drahealth`` (v1, v1alpha1), ``pluginregistration`` (v1),
``podresources`` (v1) and ``podresources_v1alpha1``: one module per API, with its messages and the constants that both
sides agree on. The messages live in a descriptor pool of our own (``_pool``). ``cdi`` is what the files of the
Container Device Interface contain.

``grpcwire`` is what goes over the sockets, and ``inotify`` is how each side notices the sockets of the other.
"""
