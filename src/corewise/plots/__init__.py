"""From results to figures; the only room that knows matplotlib."""
