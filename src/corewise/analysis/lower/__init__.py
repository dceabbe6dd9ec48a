"""Lower bounds on the mean cost, one per file; `corewise.analysis.lower.bounds` takes the best."""
