"""Questions that need several arcs of the ring: policies or systems side by side."""
