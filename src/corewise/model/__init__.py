"""What the world is: curves, classes, systems, states and rates (paper section 2)."""
