"""The numbers and figures printed in the paper, computed again (paper section 5)."""
