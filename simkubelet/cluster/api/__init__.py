"""The cluster's API server: what kubectl and client libraries talk to, over `Objects`.

`registry` decides (create, update, delete with a kind's `Strategy`), `server` and what it needs answer HTTP.
"""
