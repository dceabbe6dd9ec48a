"""Figures of results, one function each; beside `experiments.figures` all that knows matplotlib.

Every function returns a `matplotlib.figure.Figure` in the house style, made without pyplot and its global
state. A notebook shows it, `save_figure` writes it whole or not at all, ``figure.savefig(path)`` works too.
A `title` is printed above the panels; there is none by default, as a caption says more.

The names are listed in ``__init__.pyi``; each is imported when it is first used, and matplotlib when
something is drawn.
"""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
