r"""Factorised generators: the stationary distribution and the relative values of a chain by elimination.

With the row and the column of a reference state r made those of the identity, −Q is an M-matrix: elimination
needs no pivoting, and nothing cancels but on its diagonal, by which digits are lost as 1/π(r). So r is taken
where π is large.

*Banded.* With the longest side of the box outermost, Q has size/longest diagonals to either side, and LAPACK
factorises it in about 4 size (size/longest)² operations: in small boxes that is less than sweeps take, and
there is nothing to compile. It is Qᵀ that is factorised, whose columns are dominated by their diagonal, so
that no rows are exchanged.

*Sparse,* by SuperLU, where the band would be too wide: for two classes some 6 log₂(size) numbers a state.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np

from corewise.kit.arrays import Floats, Ints
from corewise.kit.interruption import interruptible
from corewise.model.space import StateSpace

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = ["BandFactors", "Factors", "SparseFactors", "band_work", "sparse_bytes"]

_BYTES = 12.0
"""Of a number and where it is."""


def band_work(space: StateSpace) -> float:
    """Return about how many operations it takes to factorise a chain on a box by its band."""
    return 4.0 * space.size * (space.size / max(space.shape)) ** 2


def sparse_bytes(space: StateSpace) -> float:
    """Return about how much memory the factors of a chain of two classes take as a sparse matrix."""
    return _BYTES * 6.0 * space.size * math.log2(space.size)


class Factors(ABC):
    """Factors of −Q with the row and the column of a reference state made those of the identity.

    Where the chain never comes back to the reference there is no solution, and what is found is not finite.
    """

    def __init__(self, reference: int) -> None:
        self.reference = reference

    @abstractmethod
    def left(self, rest: Floats) -> Floats:
        """Return x with −x Q = `rest`, but at the reference, where it is `rest` itself."""

    @abstractmethod
    def right(self, rest: Floats) -> Floats:
        """Return x with −Q x = `rest`, but at the reference, where it is `rest` itself."""


class BandFactors(Factors):
    """Factors of a generator by its band.

    Parameters
    ----------
    space : StateSpace
        The box.
    arrivals : ndarray of shape (K,)
        The arrival rate of each class, where it has room.
    rates : ndarray of shape (K, size)
        The departure rates.
    outflow : ndarray of shape (size,)
        The total rate out of each state.
    reference : int
        The state whose row and column are made those of the identity.
    """

    def __init__(
        self, space: StateSpace, arrivals: Floats, rates: Floats, outflow: Floats, reference: int
    ) -> None:
        super().__init__(reference)
        from scipy.linalg.lapack import dgbtrf

        size, order = space.size, _longest_first(space.shape)
        width = size // max(space.shape)
        band = np.zeros((3 * width + 1, size), order="F")
        diagonal = 2 * width
        states: Any = slice(None)
        if order[0] > 0:
            states = np.arange(size).reshape(space.shape).transpose(order).ravel()
        band[diagonal] = outflow[states]
        stride = size
        for i in order:
            stride //= space.shape[i]
            band[diagonal + stride, : size - stride] = -arrivals[i] * space.room[i, states][: size - stride]
            band[diagonal - stride, stride:] = -rates[i, states][stride:]
        self._states, self._width = states, width
        place = reference if order[0] == 0 else int(np.flatnonzero(states == reference)[0])
        near = np.arange(max(place - width, 0), min(place + width + 1, size))
        band[diagonal + near - place, place] = 0.0
        band[diagonal + place - near, near] = 0.0
        band[diagonal, place] = 1.0
        self._band, self._rows, _ = dgbtrf(band, width, width, overwrite_ab=True)

    def left(self, rest: Floats) -> Floats:
        """Return x with −x Q = `rest`, but at the reference, where it is `rest` itself."""
        return self._solved(rest, transposed=False)

    def right(self, rest: Floats) -> Floats:
        """Return x with −Q x = `rest`, but at the reference, where it is `rest` itself."""
        return self._solved(rest, transposed=True)

    def _solved(self, rest: Floats, *, transposed: bool) -> Floats:
        from scipy.linalg.lapack import dgbtrs

        found, _ = dgbtrs(
            self._band, self._width, self._width, rest[self._states], self._rows, trans=int(transposed)
        )
        placed = np.empty(found.size)
        placed[self._states] = found
        return placed


class SparseFactors(Factors):
    """Factors of a generator as a sparse matrix."""

    def __init__(self, generator: csr_array, reference: int) -> None:
        super().__init__(reference)
        from scipy.sparse.linalg import splu

        self._others: Ints = np.flatnonzero(np.arange(generator.shape[0]) != reference)
        inner = -generator[self._others][:, self._others].tocsc()
        self._factors = interruptible(
            lambda: splu(
                inner, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True}
            )
        )

    def left(self, rest: Floats) -> Floats:
        """Return x with −x Q = `rest`, but at the reference, where it is `rest` itself."""
        return self._solved(rest, "T")

    def right(self, rest: Floats) -> Floats:
        """Return x with −Q x = `rest`, but at the reference, where it is `rest` itself."""
        return self._solved(rest, "N")

    def _solved(self, rest: Floats, trans: str) -> Floats:
        solve: Any = self._factors.solve
        found = rest.copy()
        found[self._others] = solve(rest[self._others], trans=trans)
        return found


def _longest_first(shape: tuple[int, ...]) -> list[int]:
    """Return the axes of a box, its longest first."""
    longest = shape.index(max(shape))
    return [longest, *(i for i in range(len(shape)) if i != longest)]
