"""The fake machine: what its owner makes, changes, breaks and removes."""
