"""The truncated state space, a box: how many jobs of each class it must hold.

The chain lives on all counts; arithmetic needs a finite box, at whose edge arrivals are blocked. The box is
right when the edge is so unlikely that blocking there moves the mean number of jobs by less than 1e-10. So it
is found by trying: beyond the body of its distribution the count of a class falls geometrically, and the
decay read off one box says how large the next must be. It is read off the converged distribution: what a few
sweeps leave in the tail is no smaller than the tail, and would make the box grow without end. Where it does
not fall, the box is doubled; if twice in a row the edge then stays as likely as before, the jobs of that
class pile up without bound: the policy is unstable.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import numpy as np

from corewise.analysis.chain import Chain
from corewise.errors import BoxTooLarge, NotConverged, UnstablePolicy
from corewise.kit.arrays import Floats
from corewise.model.space import StateSpace
from corewise.model.system import System

__all__ = ["edge_is_remote", "edge_probabilities", "first_box", "fitted_box", "snug_box"]

Number = TypeVar("Number", float, Floats)

_TOLERATED = 1e-11
_ROUNDS = 24


def first_box(system: System) -> StateSpace:
    """Return a first box: the mean and four deviations of an infinite pool, and some of a tail."""
    tail = min(math.log(1e-3) / math.log(max(system.load, 1e-3)), 20.0)
    sizes = []
    for job_class in system.classes:
        mean = job_class.work_rate
        sizes.append(math.ceil(mean + 4.0 * math.sqrt(mean) + 4.0 + tail))
    return StateSpace.of(sizes, len(sizes))


def edge_probabilities(space: StateSpace, distribution: Floats) -> list[float]:
    """Return the probability that each class is at its capacity, the edge of the box."""
    grid = distribution.reshape(space.shape)
    return [float(grid.take(-1, axis=i).sum()) for i in range(len(space.capacity))]


def fitted_box(
    system: System, space: StateSpace, chain_on: Callable[[StateSpace], Chain], what: str
) -> Chain:
    """Return the chain on a truncated state space, from `space` upwards, whose truncation does not matter.

    Parameters
    ----------
    system : System
        A stable system.
    space : StateSpace
        Where to begin.
    chain_on : callable
        The chain on a box.
    what : str
        The policy, for the message when it is unstable.
    """
    before: list[float] | None = None
    flat = [0] * len(system.classes)
    chain = chain_on(space)
    for _ in range(_ROUNDS):
        distribution = chain.distribution
        edges = edge_probabilities(space, distribution)
        if edge_is_remote(system, space, edges):
            return chain
        sizes = list(space.capacity)
        decays = [1.0] * len(sizes)
        for i, name in enumerate(system.names):
            if _edge_effect(system, sizes[i], edges[i]) <= _TOLERATED:
                flat[i] = 0
                continue
            decay = decays[i] = _decay(space, distribution, i)
            flat[i] = flat[i] + 1 if before and decay > 0.999 and edges[i] > 0.6 * before[i] else 0
            if flat[i] >= 2:
                raise UnstablePolicy(
                    f"{what} is unstable on this system (load {system.load:.4g}): jobs of class {name!r} "
                    f"pile up; with room for {sizes[i]} of them it is full with probability {edges[i]:.3g}, "
                    f"and more room does not lower that"
                )
            wanted = sizes[i] * 2
            if decay < 0.9995:
                excess = 4.0 * _edge_effect(system, sizes[i], edges[i]) / _TOLERATED
                wanted = sizes[i] + 4 + math.ceil(-1.1 * math.log(excess) / math.log(decay))
            sizes[i] = min(wanted, 4 * sizes[i])
        before = edges
        larger = _grown(space, sizes, system, what)
        guess = _continued(distribution.reshape(space.shape), larger, decays)
        space, chain = larger, replace(chain_on(larger), guess=guess)
    raise NotConverged(f"no box found for {what} on this system: at {space.capacity} the edge still matters")


def edge_is_remote(system: System, space: StateSpace, edges: list[float]) -> bool:
    """Return whether the truncation is harmless: no class is at its capacity often enough to matter."""
    return all(
        _edge_effect(system, size, edge) <= _TOLERATED
        for edge, size in zip(edges, space.capacity, strict=True)
    )


def snug_box(system: System, space: StateSpace, distribution: Floats) -> tuple[int, ...]:
    """Return the smallest sufficient box within this one, and a little more: its edge is still remote."""
    grid, sizes = distribution.reshape(space.shape), []
    for i, most in enumerate(space.capacity):
        marginal = grid.sum(axis=tuple(j for j in range(grid.ndim) if j != i))
        beyond = np.cumsum(marginal[::-1])[::-1]
        effects = _edge_effect(system, np.arange(1.0, marginal.size), beyond[1:])
        ample = np.flatnonzero(effects <= 0.1 * _TOLERATED)
        sizes.append(int(ample[0]) + 1 if ample.size else most)
    return tuple(sizes)


def _edge_effect(system: System, size: Number, edge: Number) -> Number:
    """Return an estimate from above of what being at capacity that often does to mean jobs."""
    return edge * size / (1.0 - system.load)


def _grown(space: StateSpace, sizes: list[int], system: System, what: str) -> StateSpace:
    try:
        return StateSpace.of(sizes, len(sizes))
    except BoxTooLarge as error:
        raise BoxTooLarge(
            f"{what} at load {system.load:.4g} needs more room than {space.capacity} jobs per class: {error}"
        ) from None


def _continued(grid: Floats, space: StateSpace, decays: list[float]) -> Floats:
    """Return a distribution on a larger box: beyond its own edge it goes on falling as it did."""
    for axis, decay in enumerate(decays):
        ahead = np.arange(1, space.shape[axis] - grid.shape[axis] + 1)
        if ahead.size:
            falling = np.minimum(decay, 1.0) ** ahead
            last = grid.take([-1], axis=axis)
            tail = last * falling.reshape([-1 if i == axis else 1 for i in range(grid.ndim)])
            grid = np.concatenate([grid, tail], axis=axis)
    return np.asarray(grid.ravel() / grid.sum())


def _decay(space: StateSpace, distribution: Floats, i: int) -> float:
    """Return the ratio of successive probabilities of the count of class i, in its upper half."""
    others = tuple(j for j in range(len(space.capacity)) if j != i)
    marginal = distribution.reshape(space.shape).sum(axis=others)
    low, high = space.capacity[i] // 2, max(space.capacity[i] * 9 // 10, space.capacity[i] // 2 + 1)
    if not (marginal[low] > 0.0 and marginal[high] > 0.0):  # all mass is at the edge, and none below
        return math.inf
    return float(np.exp(np.log(marginal[high] / marginal[low]) / (high - low)))
