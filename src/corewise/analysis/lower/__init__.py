"""The lower bounds, one to a file; `corewise.analysis.bounds` takes the best."""
