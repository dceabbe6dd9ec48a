"""What every package needs and none owns: arrays, checks, values, reports, files, workers, version."""
