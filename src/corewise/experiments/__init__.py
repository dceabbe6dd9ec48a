"""Numbers and figures printed in the paper, computed again.  Paper: section 5."""
