"""Which corewise this is. The build, the command line and whatever corewise writes read it here."""

from __future__ import annotations

__all__ = ["SAME_NUMBERS_SINCE", "__version__"]

__version__ = "0.2.0"

SAME_NUMBERS_SINCE = "0.1.0"
"""The first version that gives the same numbers for the same seed: rows made by any since may be mixed."""
