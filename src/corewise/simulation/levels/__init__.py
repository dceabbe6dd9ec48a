"""Simulation without tables over states, for policies that are one water level."""
