"""Studies, questions that need several stages of the loop: comparison, planning, advice, sweeps."""
