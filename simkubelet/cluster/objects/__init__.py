"""The objects of a cluster as the API server stores them, and the JSON of pods, nodes and events."""
