"""Whole cores of single jobs, and which moves are worth their pause."""
