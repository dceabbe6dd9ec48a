"""Estimates that hold for sizes of any distribution, with their errors."""
