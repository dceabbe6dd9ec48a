"""Exact expectations for a given policy, without randomness: performance, information, lower bounds."""
