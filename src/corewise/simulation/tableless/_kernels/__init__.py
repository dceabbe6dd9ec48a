"""Compiled loops of simulation without tables."""
