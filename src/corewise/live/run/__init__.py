"""What runs a live pool in this process: the pool, its jobs, the runner thread and the solver process."""
