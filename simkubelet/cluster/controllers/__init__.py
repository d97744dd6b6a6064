"""The controllers of a cluster: DaemonSets, garbage collection, node life cycle, taint eviction."""
