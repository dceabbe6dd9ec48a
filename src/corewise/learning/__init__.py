"""Learning loop: run, estimate, solve, adopt, again.  Paper: section 5."""
