"""Model: speed-up curves, size distributions, classes, systems, states, rates.  Paper: section 2."""
