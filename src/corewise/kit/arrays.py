"""Types of arrays."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["Bools", "Floats", "Int", "Ints"]

Floats = NDArray[np.float64]
"""An array of floating-point numbers."""

Ints = NDArray[np.int64]
"""An array of whole numbers."""

Bools = NDArray[np.bool_]
"""An array of truth values."""

Int = int | np.int64
"""A whole number, of Python or of NumPy."""
