"""Real jobs on a real pool: what decides is pure, what acts is behind an engine.

The names are listed in ``__init__.pyi``; each is imported when it is first used, so that worker processes
start quickly.
"""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
