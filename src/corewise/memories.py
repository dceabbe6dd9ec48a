"""Memories: the windows that a learning algorithm estimates from."""

from corewise.learning.memories import Everything, Latest, Memory, SinceChange

__all__ = ["Everything", "Latest", "Memory", "SinceChange"]
