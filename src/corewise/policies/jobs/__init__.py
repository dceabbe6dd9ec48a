"""Decisions per job: the state of a job, the value of its work, and the cores it is to hold."""
