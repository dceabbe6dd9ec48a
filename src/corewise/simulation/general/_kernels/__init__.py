"""Compiled loops of the simulation of any size law."""
