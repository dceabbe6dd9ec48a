"""Price rule: which moves are worth their pause."""
