r"""The exact optimum where moves cost: a Markov decision process with what every job holds in its state.

Two classes, whole cores, exponential pauses. A state is a list of the jobs that run, each with its class,
width and whether it pauses, with the jobs of each class that never ran and those that were stopped. At every
event any job may be given other cores; moving several jobs is moving one after the other, so with Q the
value of leaving all as it is until the next event,

    V(x) = min(Q(x), min over single moves x → y of V(y)),
    Q(x) = (n(x) − J + Σ rate · V(next)) / Σ rate.

Jobs beyond `most` in the system are lost, for any rule alike. Gauss-Seidel sweeps with V(empty) = 0; J by the
secant method, such that the empty state is worth nothing. What a given rule costs is found in the same way,
with its own choice in the place of the least.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numba import njit

import corewise as cw
from corewise.kit.arrays import Floats, Ints
from corewise.policies.base import BoundPolicy
from corewise.policies.moving.rule import Widths

__all__ = ["HeldChain"]

_HIGH = 1e4

State = tuple[tuple[tuple[int, int, bool], ...], tuple[int, int], tuple[int, int]]
"""Jobs that run (class, width, whether it pauses), sorted; jobs that never ran; jobs that were stopped."""

Ahead = tuple[Ints, Ints, Floats, Ints]
"""Where the transitions of a state begin; their targets, rates, and whether a rule is asked then."""


@njit(cache=True)
def _sweep(
    values: Floats,
    stay: Floats,
    level: float,
    jobs: Floats,
    total: Floats,
    ahead: Ahead,
    moves: tuple[Ints, Ints],
) -> float:
    """Update all states; `ahead` are transitions, with 1 for those after which a rule may move."""
    first, target, rate, decides = ahead
    begins, choices = moves
    largest = 0.0
    for x in range(values.size):
        if x == 0:
            continue
        value = jobs[x] - level
        for k in range(first[x], first[x + 1]):
            value += rate[k] * (values[target[k]] if decides[k] else stay[target[k]])
        stay[x] = value / total[x] if total[x] > 0.0 else np.inf  # nobody comes, and nobody runs
        best = stay[x]
        for k in range(begins[x], begins[x + 1]):
            best = min(best, values[choices[k]])
        largest = max(largest, abs(best - values[x]))
        values[x] = best
    return largest


@njit(cache=True)
def _follow(
    values: Floats,
    stay: Floats,
    level: float,
    jobs: Floats,
    total: Floats,
    ahead: Ahead,
    chosen: Ints,
) -> float:
    """Update all states under a rule that goes from x to `chosen[x]`."""
    first, target, rate, decides = ahead
    largest = 0.0
    for x in range(1, values.size):
        value = jobs[x] - level
        for k in range(first[x], first[x + 1]):
            value += rate[k] * (values[target[k]] if decides[k] else stay[target[k]])
        stay[x] = value / total[x] if total[x] > 0.0 else np.inf
    for x in range(1, values.size):
        new = stay[chosen[x]]
        largest = max(largest, abs(new - values[x]))
        values[x] = new
    return largest


@dataclass(frozen=True)
class HeldChain:
    """The process of a system of two classes, with at most so many jobs; stopping jobs may be left out."""

    system: cw.System
    most: int
    stops: bool = True

    @cached_property
    def cores(self) -> int:
        return int(self.system.cores)

    @property
    def size(self) -> int:
        return len(self._parts[0])

    @cached_property
    def _parts(
        self,
    ) -> tuple[list[State], dict[State, int], list[list[tuple[int, float, bool]]], list[list[int]]]:
        """States from the empty one on, their numbers, transitions and single moves."""
        empty: State = ((), (0, 0), (0, 0))
        states, numbers = [empty], {empty: 0}
        ahead, moves = [], []

        def number(state: State) -> int:
            if state not in numbers:
                numbers[state] = len(states)
                states.append(state)
            return numbers[state]

        for state in states:  # grows while it is gone through
            ahead.append([(number(y), rate, decides) for y, rate, decides in self._ahead(state)])
            moves.append([number(y) for y in self._moves(state)])
        return states, numbers, ahead, moves

    def _ahead(self, state: State):  # type: ignore[no-untyped-def]
        running, fresh, stopped = state
        if len(running) + sum(fresh) + sum(stopped) < self.most:
            for i, rate in enumerate(self.system.arrival_rates.tolist()):
                yield (running, _plus(fresh, i, 1), stopped), rate, True
        for j, (i, u, paused) in enumerate(running):
            others = running[:j] + running[j + 1 :]
            known = self.system.classes[i]
            if paused:
                after = tuple(sorted((*others, (i, u, False))))
                yield (after, fresh, stopped), 1.0 / known.resize_pause, False
            else:
                yield (
                    (others, fresh, stopped),
                    known.known_size_rate * float(known.curve.rate(float(u))),
                    True,
                )

    def _moves(self, state: State):  # type: ignore[no-untyped-def]
        running, fresh, stopped = state
        free = self.cores - sum(u for _, u, _ in running)
        for i in (0, 1):
            for u in range(1, free + 1):
                if fresh[i]:
                    yield tuple(sorted((*running, (i, u, False)))), _plus(fresh, i, -1), stopped
                if stopped[i]:
                    yield tuple(sorted((*running, (i, u, True)))), fresh, _plus(stopped, i, -1)
        for j, (i, u, _) in enumerate(running):
            if j and running[j] == running[j - 1]:
                continue
            others = running[:j] + running[j + 1 :]
            if self.stops:
                yield others, fresh, _plus(stopped, i, 1)
            for v in range(1, free + u + 1):
                if v != u:
                    yield tuple(sorted((*others, (i, v, True)))), fresh, stopped

    @cached_property
    def _arrays(self):  # type: ignore[no-untyped-def]
        states, _, ahead, moves = self._parts
        jobs = np.array([len(r) + sum(f) + sum(z) for r, f, z in states], dtype=np.float64)
        rows = [row for table in ahead for row in table]
        first = np.cumsum([0, *(len(table) for table in ahead)])
        target, rate, decides = (np.array(column) for column in zip(*rows, strict=True))
        total = np.array([sum(rate for _, rate, _ in table) for table in ahead])
        begins = np.cumsum([0, *(len(table) for table in moves)])
        choices = np.array([y for table in moves for y in table], dtype=np.int64)
        return (
            jobs,
            total,
            (first, target.astype(np.int64), rate, decides.astype(np.int64)),
            (begins, choices),
        )

    def optimum(self, guess: float, tolerance: float = 1e-5) -> float:
        """Return the least mean number of jobs; the guess is that of free moves, which is below it."""
        jobs, total, ahead, moves = self._arrays
        # A pause ends with a decision too: nobody can do better than with that.
        free = (*ahead[:3], np.ones_like(ahead[3]))
        values, stay = np.zeros(jobs.size), np.zeros(jobs.size)

        def worth(level: float) -> float:
            values[1:] = _HIGH  # from above: from below, moving to and fro would cost nothing
            while _sweep(values, stay, level, jobs, total, free, moves) > tolerance * 1e-2 * max(1.0, level):
                pass
            return self._worth_of_empty(values, level)

        return _root(worth, guess, tolerance)

    def cost(self, policy: BoundPolicy, guess: float, tolerance: float = 1e-5) -> float:
        """Return the mean number of jobs under a width rule, which is asked at arrivals and departures."""
        jobs, total, ahead, _ = self._arrays
        chosen = self._chosen(policy)
        values, stay = np.zeros(jobs.size), np.zeros(jobs.size)

        def worth(level: float) -> float:
            while _follow(values, stay, level, jobs, total, ahead, chosen) > tolerance * 1e-2 * max(
                1.0, level
            ):
                pass
            return self._worth_of_empty(values, level)

        return _root(worth, guess, tolerance)

    def _worth_of_empty(self, values: Floats, level: float) -> float:
        first, target, rate, _ = self._arrays[2]
        arrivals = slice(first[0], first[1])
        return float(rate[arrivals] @ values[target[arrivals]]) - level

    def _chosen(self, policy: BoundPolicy) -> Ints:
        """Return the state that a rule goes to from every state."""
        states, numbers, _, _ = self._parts
        own, pauses = policy.decision.part(Widths), [known.resize_pause for known in self.system.classes]
        assert own is not None
        rule = own.rule
        chosen = []
        for running, fresh, stopped in states:
            rows = [(i, u, False, pauses[i] if paused else 0.0) for i, u, paused in running]
            rows += [(i, 0, True, 0.0) for i in (0, 1) for _ in range(fresh[i])]
            rows += [(i, 0, False, 0.0) for i in (0, 1) for _ in range(stopped[i])]
            if not rows:
                chosen.append(0)
                continue
            classes, held, new, left = (np.array(column) for column in zip(*rows, strict=True))
            counts = np.bincount(classes, minlength=2)
            given = np.rint(policy.allocate(counts)).astype(np.int64)
            limits = (np.ones(len(rows), dtype=np.int64), np.full(len(rows), self.cores))
            widths = rule.widths((classes, held, new, left, *limits), given, self.cores)
            after, waits, stands = [], [0, 0], [0, 0]
            for (i, u, never, rest), v in zip(rows, widths.tolist(), strict=True):
                if v == 0:
                    (waits if never else stands)[i] += 1
                else:
                    after.append((i, v, bool(rest) if v == u else not never))
            chosen.append(numbers[tuple(sorted(after)), (waits[0], waits[1]), (stands[0], stands[1])])
        return np.array(chosen, dtype=np.int64)


def _plus(pair: tuple[int, int], i: int, step: int) -> tuple[int, int]:
    return (pair[0] + step, pair[1]) if i == 0 else (pair[0], pair[1] + step)


def _root(worth: Callable[[float], float], guess: float, tolerance: float) -> float:
    """Return the level at which the empty state is worth nothing, which falls as it rises.

    A guess far above it would make it worth while never to be empty.
    """
    levels = [guess, 1.01 * guess]
    found = [worth(level) for level in levels]
    for _ in range(30):
        (a, b), (f, g) = levels[-2:], found[-2:]
        level = min(b - g * (b - a) / (g - f), 1.05 * b)
        levels.append(level)
        if abs(level - b) < tolerance * level:
            return level
        found.append(worth(level))
    raise AssertionError([*pairwise(levels)])
