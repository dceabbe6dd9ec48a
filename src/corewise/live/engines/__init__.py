"""Engines: what runs jobs and moves their cores; the controller never sees which."""
