"""The worlds that stories are played in, one module each."""
