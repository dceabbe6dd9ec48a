"""The compiled loop that draws a path until a CUSUM along it comes to a height.

States, moves and thresholds are those of `corewise.simulation.loops._kernels.chain`.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.random import Generator

from corewise.kit.arrays import Floats, Int
from corewise.simulation.loops._kernels.chain import Steps, u


@njit(cache=True, nogil=True)
def cusum_walk(
    rng: Generator,
    thresholds: Floats,
    holding: Floats,
    falls: Floats,
    rises: Floats,
    steps: Steps,
    watched: int,
    state: Int,
    level: float,
    height: float,
    departures: Int,
) -> tuple[Int, float, Int]:
    """Draw moves while a CUSUM is below `height`, up to so many departures; return state, level, departures.

    The level falls at the rate `falls` of each state and rises by its `rises` at the move `watched`; either
    may be negative, and below zero it starts afresh. An interval in which it comes to the height is not
    finished: time to the next event has no memory.
    """
    width, step = u(len(steps)), np.array(steps)
    first_departure = width // u(2)
    here, now, left = state, level, departures
    while left > 0 and now < height:
        row = u(here) * width
        if thresholds[row] < 0.0:
            break
        now = max(0.0, now - falls[u(here)] * holding[u(here)] * rng.standard_exponential())
        if now >= height:
            break
        draw = rng.random()
        k = u(0)
        for j in range(len(steps) - 1):
            k += u(draw >= thresholds[row + u(j)])
        if k == u(watched):
            now = max(0.0, now + rises[u(here)])
        here += step[k]
        left -= np.int64(k >= first_departure)
    return here, now, departures - left
