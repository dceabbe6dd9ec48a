"""The best policy (paper section 4)."""
