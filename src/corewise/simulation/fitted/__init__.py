"""Simulation without tables over states, for policies by fitted values."""
