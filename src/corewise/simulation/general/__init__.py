"""Simulation of jobs with sizes of any distribution."""
