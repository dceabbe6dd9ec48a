"""Advice from the log of a pool: the gain from reallocation and its error, the cores needed."""
