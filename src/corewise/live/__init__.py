"""Real jobs on a real pool: what decides is pure, what acts is behind an engine."""
