"""The lower bounds, one to a file; `corewise.analysis.lower.bounds` takes the best."""
