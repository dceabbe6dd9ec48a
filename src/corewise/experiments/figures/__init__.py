"""Figures of the studies behind the experiments."""
