"""Policies that are one water level: their steps, and the level in compiled form."""
