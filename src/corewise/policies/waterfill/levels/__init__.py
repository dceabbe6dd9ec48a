"""Water-level policies: their steps, and the level in compiled form."""
