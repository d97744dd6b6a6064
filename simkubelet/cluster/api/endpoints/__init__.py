"""The HTTP side of the API server: requests in, objects, lists, watches, tables and logs out."""
