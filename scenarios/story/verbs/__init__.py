"""The steps of a story: a module for each group of verbs."""
