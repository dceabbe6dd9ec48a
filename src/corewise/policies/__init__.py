"""Allocation policies: the cores of every class, or job, in a state."""
