"""The price rule: which moves are worth what they cost."""
