"""Observations: events, sample paths, sufficient statistics, event logs, importers."""
