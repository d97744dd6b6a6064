"""The story: its model, how it is loaded and checked. Nothing here plays it."""
