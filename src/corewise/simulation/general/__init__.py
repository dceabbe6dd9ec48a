"""Simulation of jobs whose sizes follow any law."""
