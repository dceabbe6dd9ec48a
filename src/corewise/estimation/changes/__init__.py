"""Change detection: when curves or rates are no longer what they were."""
