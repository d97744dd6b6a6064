"""The cluster's API server: what kubectl and client libraries talk to, over `Objects`.

`registry` creates, updates and deletes with the `Strategy` of each kind; `endpoints` answers HTTP.
"""
