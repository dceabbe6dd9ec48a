"""Rates, speed-up curves and sizes from what jobs report of their progress, pooled by class."""
