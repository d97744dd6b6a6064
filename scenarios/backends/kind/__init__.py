"""The backend ``kind``: a real cluster whose nodes are docker containers."""
