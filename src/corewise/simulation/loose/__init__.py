"""Simulation without tables over states: what all policies have in common."""
