"""What the API server knows of each kind: names, versions, metadata and the strategy to write it."""
