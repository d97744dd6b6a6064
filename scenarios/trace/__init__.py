"""The trace: the events of a play, and the state of the node at one moment."""
