r"""Water-level policies: what every class buys, in the order in which it is bought.

Under Whittle, GREEDY* and EQUI there is one number, the level, on which the width of every job depends:
the width z_i of a class-i job rises with the level, and the level is where all cores are held, Σ n_i z_i = c.
So such a policy needs no table over states, whatever the number of classes. It is a list of *steps* in the
order in which they are bought; a step belongs to a class and is either

- a jump: the width grows by a piece at once; steps of one *group* jump together, in proportion, or
- the start of a tail: from there on the width grows with t = 1/√price, as a + b t + d t² or, where no such
  form exists, along a curve of its own (see `corewise.policies.waterfill.demand`).

Groups are sorted by t. Those at t = 0 come before any price: one core for each job, then what runs at s(z) =
z. Those at t = ∞ come last: cores that speed no job up, where the policy says who holds them or jobs may hold
only so many. Without such groups, the cores that are left when everything is bought are shared equally by all
jobs; with them they are idle.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from corewise.kit.arrays import Floats, Ints
from corewise.policies.waterfill._kernels import INVERSE_ROOT, NO_TAIL, POWER, START
from corewise.policies.waterfill.demand import Shapes
from corewise.policies.waterfill.levels import _kernels
from corewise.policies.waterfill.levels._kernels import CURVED, JUMP, TAIL
from corewise.policies.waterfill.levels.places import Places

__all__ = ["Fill", "LevelSteps"]


Fill = tuple[Ints, Floats]
"""Ranks and widths: classes of the lowest rank are given their width per job first."""


@dataclass(frozen=True, eq=False)
class LevelSteps:
    """Steps of a water-level policy: what every class buys in order, as arrays for the kernels.

    Attributes
    ----------
    cores : float
        What there is to share.
    steps : ndarray, shape (E, 6)
        The steps of class after class, each in order: the group, the kind (`JUMP`, `TAIL` or `CURVED`), what
        a job holds of it once it is bought as a + b t + d t², and for a curved tail its row in `tails`.
    own : ndarray of int, shape (K + 1,)
        The first step of each class.
    order : ndarray of int, shape (E,)
        The steps in the order of their groups.
    first : ndarray of int, shape (G + 1,)
        Where each group begins in `order`.
    at : ndarray, shape (G,)
        The t at which each group is bought.
    tails, nodes : ndarray
        The curved tails, as `corewise.policies.waterfill.demand` has them, and in a last column the t at
        which the class begins to buy.
    owner : ndarray of int, shape (E,)
        The class of each step.
    """

    cores: float
    steps: Floats
    own: Ints
    order: Ints
    first: Ints
    at: Floats
    tails: Floats
    nodes: Floats
    owner: Ints

    @cached_property
    def arrays(self) -> tuple[Floats, Ints, Ints, Ints, Floats, Floats, Floats, Ints, Ints]:
        """The steps as the kernels take them; last which of them are curved tails."""
        curved = np.flatnonzero(self.steps[:, _kernels.KIND] == CURVED)
        return (
            self.steps,
            self.own,
            self.order,
            self.first,
            self.at,
            self.tails,
            self.nodes,
            self.owner,
            curved,
        )

    def allocate(self, counts: Ints) -> Floats:
        """Return the cores of each class, counts and cores of shape (K, states)."""
        if not len(self.tails):
            return self._places.allocate(counts)
        held = np.empty(counts.shape)
        _kernels.level_states(self.arrays, self.cores, counts, held)
        return held

    @cached_property
    def _places(self) -> Places:
        return Places.of(self.cores, self.own.size - 1, self.steps, self.owner, self.at)

    @classmethod
    def equal(cls, cores: float, classes: int) -> LevelSteps:
        """Return the equal-share policy, without steps: every job holds the same."""
        return cls._of(cores, classes, [], [], np.zeros((0, 1, 2)))

    @classmethod
    def in_order(cls, cores: float, fills: Sequence[Fill]) -> LevelSteps:
        """Return the policy of strict order, one fill after the other, with no price."""
        return cls._of(cores, len(fills[0][0]), _filled(fills), [], np.zeros((0, 1, 2)))

    @classmethod
    def of(
        cls,
        cores: float,
        fills: Sequence[Fill],
        shapes: Shapes,
        prices: Floats,
        ranks: Ints | None = None,
    ) -> LevelSteps:
        """Return the policy that fills in order and then sells the unallocated cores at one price.

        Parameters
        ----------
        cores : float
            What there is to share.
        fills : sequence of Fill
            What is given before any price, one after the other.
        shapes, prices
            As for `corewise.policies.waterfill.split.split`.
        ranks : ndarray of int, shape (K,), optional
            Who goes first where several buy at the same price; in proportion to the jumps if not given.
        """
        steps = _filled(fills)
        tails: list[list[float]] = []
        useless = _useless(cores, fills, shapes).tolist()
        for i, price in enumerate(prices.tolist()):
            rank = 0 if ranks is None else int(ranks[i])
            if ranks is not None or shapes.limited:
                steps.append(_Step((math.inf, 0, rank), i, JUMP, (useless[i], 0.0, 0.0)))
            if price <= 0.0:
                continue
            start = 1.0 / math.sqrt(price)
            for root, width in shapes.pieces[i].tolist():
                if math.isfinite(root) and width > 0.0:
                    steps.append(_Step((start * root, 0, rank), i, JUMP, (width, 0.0, 0.0)))
            kind, a, b, root, _, limit, _ = shapes.tails[i].tolist()
            if kind == NO_TAIL or not math.isfinite(root):
                continue
            key = (start * root, 0, len(prices))  # after the jumps at the same price
            if kind == INVERSE_ROOT:
                steps.append(_Step(key, i, TAIL, (b, a / start, 0.0)))
            elif kind == POWER and b == 1.0 and limit == math.inf:
                steps.append(_Step(key, i, TAIL, (-1.0, 0.0, a / start**2)))
            else:
                steps.append(_Step(key, i, CURVED, row=len(tails)))
                tails.append([*shapes.tails[i].tolist(), start])
        return cls._of(cores, len(prices), steps, tails, shapes.nodes)

    @classmethod
    def _of(
        cls, cores: float, classes: int, steps: list[_Step], tails: list[list[float]], nodes: Floats
    ) -> LevelSteps:
        keys = sorted({step.key for step in steps})
        groups = {key: g for g, key in enumerate(keys)}
        listed = sorted(steps, key=lambda step: (step.owner, step.key))
        columns = np.array([(groups[step.key], step.kind, *step.terms, step.row) for step in listed])
        columns = columns.reshape(-1, 6)
        owner = np.array([step.owner for step in listed], dtype=np.int64)
        order = np.argsort(columns[:, 0], kind="stable")
        return cls(
            cores=cores,
            steps=columns,
            own=np.searchsorted(owner, np.arange(classes + 1)),
            order=order,
            first=np.searchsorted(columns[order, 0], np.arange(len(keys) + 1)),
            at=np.array([key[0] for key in keys]),
            tails=np.array(tails).reshape(-1, START + 1),
            nodes=nodes,
            owner=owner,
        )


@dataclass(frozen=True)
class _Step:
    """Step of a water-level policy: when it is bought (t, stage, rank), by whom, and what it adds."""

    key: tuple[float, int, int]
    owner: int
    kind: float
    terms: tuple[float, float, float] = (0.0, 0.0, 0.0)
    row: int = -1


def _useless(cores: float, fills: Sequence[Fill], shapes: Shapes) -> Floats:
    """Return the cores that a job of each class may hold beyond those that make it faster."""
    bought = shapes.useful + sum(widths for _, widths in fills)
    left = np.full(bought.size, cores)
    limited = np.isfinite(shapes.most)
    left[limited] = np.maximum(shapes.most[limited] - bought[limited], 0.0)
    return left


def _filled(fills: Sequence[Fill]) -> list[_Step]:
    """Return the steps that come before any price."""
    return [
        _Step((0.0, stage, int(rank)), i, JUMP, (float(width), 0.0, 0.0))
        for stage, (order, widths) in enumerate(fills)
        for i, (rank, width) in enumerate(zip(order, widths, strict=True))
        if width > 0.0
    ]
