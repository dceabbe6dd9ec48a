"""Simulation: random paths of a system under a policy, and means with intervals."""
