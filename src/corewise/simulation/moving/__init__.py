"""Simulation of jobs that hold whole cores and pause when these change."""
