"""State of a live pool, pure: events in, instructions out; no clock, thread, socket, file or randomness."""
