"""Whole cores per class: rounding, and the limits of jobs."""

from __future__ import annotations

import numpy as np

from corewise.errors import InvalidSystem
from corewise.kit.arrays import Floats, Ints
from corewise.model.system import System

__all__ = ["require_whole", "round_cores", "within_limits"]


def require_whole(system: System) -> int:
    """Return the number of cores as an int, or refuse."""
    if system.cores != int(system.cores):
        raise InvalidSystem(f"whole cores need a whole number of cores, got {system.cores:g}")
    return int(system.cores)


def round_cores(cores: Floats) -> Floats:
    """Round cores per class to integers with the same sum, by largest remainder; shape (K, states).

    Ties of the remainders go to the class listed first.
    """
    floors = np.floor(cores + 1e-9)
    missing = np.rint(cores.sum(axis=0) - floors.sum(axis=0))
    rank = np.argsort(np.argsort(floors - cores, axis=0, kind="stable"), axis=0, kind="stable")
    return np.asarray(floors + (rank < missing))


def within_limits(cores: Floats, counts: Ints, most: Floats) -> Floats:
    """Return a split in which no job holds more than its most; shape (K, states).

    What a class cannot hold goes to the first one that can hold more, and is idle if none can.
    """
    if not np.any(most < np.inf):
        return cores
    room = np.where(counts > 0, np.maximum(counts, 1) * most[:, None], 0.0)
    kept = np.minimum(cores, room)
    spare = (cores - kept).sum(axis=0)
    for i, limit in enumerate(room):
        more = np.minimum(limit - kept[i], spare)
        kept[i] += more
        spare -= more
    return kept
