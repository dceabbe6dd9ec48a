"""Decisions that complete the loops: by table, remembered, by water level, by fitted values."""
