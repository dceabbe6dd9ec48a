"""Compiled loops that decide by themselves in states that are not known."""
