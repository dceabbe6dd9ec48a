"""One decision per job, compiled: its tables of a system, and the kernels."""
