"""What every room needs and none owns: arrays, checks, frozen values, files, display, threads, processes."""
