"""The box of states: counts of jobs per class from zero up to a capacity, and their flat index.

States are numbered in C order (the last class runs fastest). Arrays over states that have one row a class
are class-major, shape (K, states): a row is contiguous, which is what the kernels want.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from corewise.errors import BoxTooLarge, InvalidInput
from corewise.kit import checks
from corewise.kit.arrays import Bools, Floats, Ints

__all__ = ["StateSpace", "available_memory", "most_states"]

_SMALL = 4096
"""Maximum number of states of a box that is cached."""

_SIDES = 4  # of a box that are named


@dataclass(frozen=True)
class StateSpace:
    """All states (n_1, …, n_K) with 0 ≤ n_i ≤ capacity_i."""

    capacity: tuple[int, ...]

    @classmethod
    def of(cls, capacity: int | Iterable[int], classes: int) -> StateSpace:
        """Return the box of a capacity given as one number for all classes or one for each."""
        if isinstance(capacity, np.ndarray) and capacity.ndim == 0:
            capacity = capacity.item()
        if isinstance(capacity, Iterable) and not isinstance(capacity, str | bytes | Mapping):
            numbers = tuple(checks.whole(n, "capacity") for n in capacity)
        else:
            numbers = (checks.whole(capacity, "capacity"),) * classes
        if len(numbers) != classes:
            raise InvalidInput(
                f"capacity needs one number or {classes}, one for each class, got {list(numbers)}"
            )
        small = math.prod(n + 1 for n in numbers) <= _SMALL
        space = _small_box(numbers) if small else cls(numbers)
        space.require_memory()
        return space

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The number of different counts of each class."""
        return tuple(n + 1 for n in self.capacity)

    @property
    def sides(self) -> str:
        """The shape in words, of many classes the first few."""
        first = " × ".join(map(_many, self.shape[:_SIDES]))
        return first if len(self.shape) <= _SIDES else f"{first} × … ({len(self.shape)} classes)"

    @property
    def size(self) -> int:
        """The number of states."""
        return math.prod(self.shape)

    @cached_property
    def counts(self) -> Ints:
        """The counts of every state, shape (K, size)."""
        return np.indices(self.shape, dtype=np.int64).reshape(len(self.capacity), -1)

    @cached_property
    def jobs(self) -> Floats:
        """The counts as floating-point numbers."""
        return self.counts.astype(np.float64)

    @cached_property
    def dimensions(self) -> Ints:
        """The shape, as an array for the kernels."""
        return np.array(self.shape, dtype=np.int64)

    @cached_property
    def strides(self) -> Ints:
        """How far apart the flat indices of n and n + e_i are."""
        return np.cumprod((1, *self.shape[:0:-1]), dtype=np.int64)[::-1].copy()

    def index(self, counts: Ints) -> Ints:
        """Return the flat index of counts of shape (…, K)."""
        return np.asarray(counts @ self.strides, dtype=np.int64)

    def contains(self, counts: Ints) -> Bools:
        """Return which counts of shape (…, K) lie in the box."""
        return np.asarray(np.all((counts >= 0) & (counts <= np.array(self.capacity)), axis=-1))

    @cached_property
    def edge(self) -> Floats:
        """One where a class is at its capacity and zero where it can take one more job, shape (K, size)."""
        return np.asarray(self.counts == np.array(self.capacity)[:, None], dtype=np.float64)

    @cached_property
    def room(self) -> Floats:
        """One where a class can take one more job and zero where it is at its capacity, shape (K, size)."""
        return np.asarray(self.counts < np.array(self.capacity)[:, None], dtype=np.float64)

    def require_memory(self) -> None:
        """Raise `BoxTooLarge` if the working arrays of an exact solve would not fit in memory."""
        most = most_states(len(self.capacity))
        if self.size > most:
            available, per_state = available_memory(), _bytes_a_state(len(self.capacity))
            raise BoxTooLarge(
                f"a box of {self.sides} = {_many(self.size)} states needs about "
                f"{_many(self.size * per_state // 2**30)} GiB, and this machine has "
                f"{available / 2**30:,.1f} GiB for it "
                f"(about {most:,} states). Give a smaller capacity, or merge classes that are "
                f"alike; the whittle policy itself can be applied without any table of states"
            )


@lru_cache(maxsize=16)
def _small_box(capacity: tuple[int, ...]) -> StateSpace:
    """Return a box: the one made before, if there was one lately, for a learner asks at every step.

    Its arrays are shared and read-only.
    """
    return StateSpace(capacity)


def most_states(classes: int) -> int:
    """Return how many states the working arrays of an exact solve may have on this machine."""
    return available_memory() // _bytes_a_state(classes)


def _bytes_a_state(classes: int) -> int:
    return 8 * (6 * classes + 8)


def available_memory() -> int:
    """Return half of the physical memory in bytes; 4 GiB where the operating system does not report it."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    except (AttributeError, ValueError, OSError):
        return 4 * 2**30


def _many(number: int) -> str:
    """Return a number with its thousands apart, or its order of magnitude if it is astronomical."""
    return f"{number:,}" if number < 10**24 else f"10^{math.floor(math.log10(number))}"
