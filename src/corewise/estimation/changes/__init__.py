"""Change-point detection: when curves or rates changed."""
