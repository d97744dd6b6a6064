"""Compares two traces of a story: their normal forms, and where these differ."""
