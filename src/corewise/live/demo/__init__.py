"""Demonstration: the same jobs on two real pools at once, one under EQUI and one steered."""
