"""Compiled decisions per job."""
