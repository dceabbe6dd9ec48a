"""Advice as an HTML page in one file, with its figures."""
