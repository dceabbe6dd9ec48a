"""Optimal policies: the Bellman equation, solvers, fitted improvement.  Paper: section 4."""
