"""Simulation without tables over states, for many classes or policies that are a rule."""
