"""Estimates that hold for sizes of any law, and how sure they are."""
