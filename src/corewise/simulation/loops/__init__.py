"""Simulation loops: the clocked chain, every job, and moves that cost time."""
