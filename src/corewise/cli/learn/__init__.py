"""The verb `learn`: its options, the run under way, the report."""
