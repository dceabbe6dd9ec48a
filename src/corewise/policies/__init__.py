"""Who holds how many cores in a state."""
