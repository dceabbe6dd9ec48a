"""Columns of a table in text: all fields of many lines are found and read at once."""
