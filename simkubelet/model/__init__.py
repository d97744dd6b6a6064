"""The data that all parts share: pods, nodes, resources, events, errors, versions and the clock. No I/O."""
