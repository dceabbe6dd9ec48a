"""Sampling of the states that a policy visits, with the time in each: what a value function is fitted to.

With few classes and cores they come from one long path over tables (`corewise.simulation.decisions.table`),
and otherwise, where the policy allows it, from a path without tables at regular times. For any other policy
they come from a number of independent copies of the system that move at the same time, one event each: the
rule is asked for all of them at once. A copy counts in a state for the mean time that it stays there, which
has less variance than a time drawn at random and the same mean. Copies start from states of a like policy, if
there are any.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from corewise.errors import BoxTooLarge
from corewise.kit.arrays import Floats, Ints
from corewise.model.rates import departure_rates
from corewise.model.system import System
from corewise.policies.base import BoundPolicy
from corewise.simulation.correlation import correlation_time, excess_growth
from corewise.simulation.decisions.table import TableChain, suits_sampled_tables
from corewise.simulation.intervals import BATCH_TIMES
from corewise.simulation.paths import draws_without_tables, first_tables, first_walk
from corewise.simulation.state import State

__all__ = ["Sample", "sample_states", "settled_events"]

_BATCHES = 12
_MOST_KEPT = 40_000
_COPIES = 64
_WARM_UP = 0.25

_COPY_TIMES = 20.0
"""Correlation times of a copy, which forgets its start in a quarter of them."""


@dataclass(frozen=True, eq=False)
class Sample:
    """Weighted sample of states that a policy visits: the states, and the time spent in them.

    Attributes
    ----------
    counts : ndarray of int, shape (K, states)
        The states.
    times : ndarray, shape (batches, states)
        The time spent in each of them in each part of the simulation; parts are about independent if there
        were enough events (`settled_events`).
    growth : float
        How many standard deviations the work in the system grew beyond random variation.
    """

    counts: Ints
    times: Floats
    growth: float = 0.0

    def scaled(self, count: int, most: float, rng: np.random.Generator) -> Ints:
        """Return states like these with 0 to `most` times as many jobs, shape (K, at most `count`).

        In half of them the jobs of all classes are as many times as many, in half those of a single one.
        """
        times, classes = self.times.sum(axis=0), len(self.counts)
        counts = self.counts[:, rng.choice(times.size, count, p=times / times.sum())]
        factors = np.ones((classes, count))
        alone = np.arange(count // 2, count)
        factors[:, : count // 2] = most * rng.random(count // 2)
        factors[rng.integers(classes, size=alone.size), alone] = most * rng.random(alone.size)
        scaled = np.floor(counts * factors + rng.random(counts.shape) * (counts > 0))
        return np.ascontiguousarray(np.unique(scaled.astype(np.int64), axis=1))


def sample_states(
    system: System,
    policy: BoundPolicy,
    *,
    events: int,
    rng: np.random.Generator,
    near: Sample | None = None,
) -> Sample:
    """Sample the states that a policy visits, from sample paths of about so many events.

    Parameters
    ----------
    system : System
        The system.
    policy : BoundPolicy
        A policy under which it is stable.
    events : int
        How many, besides those in which the first state is forgotten.
    rng : Generator
        The source of randomness.
    near : Sample, optional
        States of a policy not far from this one, to start from.
    """
    if suits_sampled_tables(system):
        try:
            return _by_tables(system, policy, events, rng)
        except BoxTooLarge:  # more jobs than cores suggest: no tables, then
            pass
    if draws_without_tables(policy):
        return _by_path(system, policy, events, rng, near)
    return _by_copies(system, policy, events, rng, _first_states(system, rng, near))


def settled_events(system: System, policy: BoundPolicy | None = None) -> float:
    """Return how many events a sample must have so that its parts are about independent.

    Without a policy, how many it must have under any.
    """
    times = _BATCHES * BATCH_TIMES
    if policy is not None and not (suits_sampled_tables(system) or draws_without_tables(policy)):
        times = _COPIES * _COPY_TIMES
    return times * correlation_time(system) * 2.0 * float(system.arrival_rates.sum())


def _by_path(
    system: System, policy: BoundPolicy, events: int, rng: np.random.Generator, near: Sample | None
) -> Sample:
    """Return the states of one path at regular times."""
    start = (0,) * len(system.classes)
    if near is not None:
        start = tuple(near.counts[:, int(np.argmax(near.times.sum(axis=0)))].tolist())
    walk = first_walk(system, policy, State(start), rng)
    length = events / (2.0 * float(system.arrival_rates.sum()))
    each = max(min(events, _MOST_KEPT) // _BATCHES, 1)
    walk.sampled(_WARM_UP * length, 1)
    seen = [walk.sampled(length / _BATCHES, each) for _ in range(_BATCHES)]
    spent = np.kron(np.eye(_BATCHES), np.full(each, length / (_BATCHES * each)))
    growth = excess_growth(system, np.array([start]).T, np.array([walk.counts]).T, (1.0 + _WARM_UP) * length)
    return Sample(np.concatenate(seen, axis=1), spent, growth)


def _by_tables(system: System, policy: BoundPolicy, events: int, rng: np.random.Generator) -> Sample:
    """Return the states of one path, a batch at a time."""
    state = State((0,) * len(system.classes))
    tables = first_tables(system, policy, state)
    seen, times = [], []
    for batch in range(-int(_WARM_UP * _BATCHES), _BATCHES):
        walk = TableChain(tables, state, rng)
        walk.run_departures([max(events // (2 * _BATCHES), 1)], None)
        tables, state = walk.tables, walk.finish()[0]
        if batch >= 0:
            counts, _, _, spent = walk.seen()
            seen.append(counts)
            times.append(spent)
    states, where = np.unique(np.concatenate(seen, axis=1), axis=1, return_inverse=True)
    spent = np.zeros((_BATCHES, states.shape[1]))
    batch_of = np.repeat(np.arange(_BATCHES), [part.shape[1] for part in seen])
    np.add.at(spent, (batch_of, where.ravel()), np.concatenate(times))
    ended = np.array([state.counts]).T
    growth = excess_growth(system, np.zeros_like(ended), ended, state.time)
    return Sample(np.ascontiguousarray(states), spent, growth)


def _first_states(system: System, rng: np.random.Generator, near: Sample | None) -> Ints:
    """Return a state for each copy, shape (K, copies)."""
    if near is not None:
        times = near.times.sum(axis=0)
        return near.counts[:, rng.choice(times.size, _COPIES, p=times / times.sum())]
    return rng.poisson((system.arrival_rates / system.size_rates)[:, None], (len(system.classes), _COPIES))


def _by_copies(
    system: System,
    policy: BoundPolicy,
    events: int,
    rng: np.random.Generator,
    start: Ints,
) -> Sample:
    """Return the states of independent copies, in which each step is an event of every copy."""
    counts, spans = start.copy(), np.zeros(start.shape[1])
    classes, copies = counts.shape
    steps = max(events // copies, _BATCHES)
    every = max(1, steps * copies // _MOST_KEPT)
    seen, times = [], []
    rates = np.empty((2 * classes, copies))
    rates[:classes] = system.arrival_rates[:, None]
    which = np.arange(copies)
    for step in range(-int(_WARM_UP * steps), steps):
        rates[classes:] = departure_rates(system, counts.astype(np.float64), policy.decision(counts))
        upto = np.cumsum(rates, axis=0)
        spans += 1.0 / upto[-1]
        if step >= 0 and step % every == 0:
            seen.append(counts.copy())
            times.append(1.0 / upto[-1])
        move = np.argmax(upto > rng.random(copies) * upto[-1], axis=0)
        counts[move % classes, which] += np.where(move < classes, 1, -1)
    batch_of = np.tile(which % _BATCHES, len(seen))
    spent = np.zeros((_BATCHES, batch_of.size))
    spent[batch_of, np.arange(batch_of.size)] = np.concatenate(times)
    growth = excess_growth(system, start, counts, float(spans.mean()))
    return Sample(np.ascontiguousarray(np.concatenate(seen, axis=1)), spent, growth)
