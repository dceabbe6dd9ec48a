"""Verbs `live …`: the demonstration, and the journal of a pool."""
