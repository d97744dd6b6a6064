"""From the bytes of a request to a typed object: JSON, YAML, protobuf and the schema of each kind."""
