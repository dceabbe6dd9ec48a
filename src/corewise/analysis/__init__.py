"""Exact numbers for a given system and policy; no randomness."""
