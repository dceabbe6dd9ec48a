"""Allocation policies: who holds how many cores in a state."""
