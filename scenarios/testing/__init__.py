"""Nodes, clusters and stories for tests in Python, of which the fixtures of `simkubelet.pytest_plugin` are made."""
