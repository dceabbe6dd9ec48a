"""Random generators, given or made from a seed, and independent streams of them."""

from __future__ import annotations

import numpy as np

from corewise.errors import InvalidInput
from corewise.kit import checks

__all__ = ["random_generator", "random_streams"]


def random_generator(rng: np.random.Generator | int | None) -> np.random.Generator:
    """Return the generator given, or one made from a seed."""
    if isinstance(rng, np.random.Generator):
        return rng
    if rng is None:
        return np.random.default_rng()
    if isinstance(rng, np.random.RandomState):
        raise InvalidInput(
            "rng must be a Generator or a whole number, got a RandomState, which draws otherwise: "
            "give numpy.random.default_rng(seed), or the seed itself"
        )
    return np.random.default_rng(checks.whole(rng, "rng", least=0))


def random_streams(rng: np.random.Generator | int | None, count: int) -> list[np.random.Generator]:
    """Return independent generators spawned from the one given, or from a seed, in order."""
    try:
        return random_generator(rng).spawn(count)
    except TypeError:
        raise InvalidInput("rng cannot spawn streams of its own: make it with default_rng(seed)") from None
