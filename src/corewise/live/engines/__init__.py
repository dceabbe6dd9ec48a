"""Engines: what runs jobs and moves their cores; the controller never sees which.

The names are listed in ``__init__.pyi``; each is imported when it is first used, so that worker processes
start quickly.
"""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
