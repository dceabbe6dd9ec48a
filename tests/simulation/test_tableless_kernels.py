"""The compiled loops of water levels and paths without tables: bit for bit as their sources, and right.

Speeds are compared with those of the curves, drawing by the alias method with the probabilities it stands
for, and the grid of widths with what must be kept by it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import corewise as cw
from corewise.kit._kernels import _interpreted
from corewise.kit.values import same as same_values
from corewise.policies.base import BoundPolicy
from corewise.policies.decisions import Levels
from corewise.policies.fitted.rule import Fitted
from corewise.policies.waterfill.levels import _kernels as level_kernels
from corewise.policies.waterfill.levels.places import Places
from corewise.simulation.decisions._kernels import fitted as fitted_kernels
from corewise.simulation.decisions._kernels import levels as walk_kernels
from corewise.simulation.decisions._kernels.fitted import Room
from corewise.simulation.decisions.fitted import FittedJobs
from corewise.simulation.decisions.levels import LevelChain, LevelJobs
from corewise.simulation.decisions.remembered import RememberedJobs
from corewise.simulation.loops._kernels import clocked as loose_kernels
from corewise.simulation.loops.curves import alias_table, curve_arrays
from corewise.simulation.loops.sources import RandomJobs
from corewise.simulation.loops.state_cache import StateCache
from corewise.simulation.loops.tally import octave_parts, width_grid
from corewise.simulation.state import State
from tests.control.test_improve import some_values
from tests.helpers.twins import not_compared, same

pytestmark = pytest.mark.slow

MODULES = {
    level_kernels: "level_kernels",
    walk_kernels: "walk_kernels",
    loose_kernels: "loose_kernels",
    fitted_kernels: "fitted_kernels",
}


@dataclass(frozen=True)
class Logarithmic(cw.SpeedUp):
    """A curve of no family that corewise knows."""

    p: float
    family: ClassVar[str] = "logarithmic"
    bounds: ClassVar[Mapping[str, tuple[float, float]]] = {"p": (0.0, 1.0)}

    def rate_above(self, z: Any) -> Any:
        return 1.0 + self.p * np.log(z)


CURVES: list[cw.SpeedUp] = [
    cw.Amdahl(0.6),
    cw.PowerLaw(0.5),
    cw.Gustafson(0.3),
    cw.Usl(0.1, 0.02),
    cw.Tabulated([(2.0, 1.8), (5.0, 3.0)]),
    Logarithmic(0.7),
    cw.Amdahl(0.0),
    cw.PowerLaw(0.999),
    cw.Gustafson(1.0),
    cw.Usl(0.8, 0.5),
    cw.Tabulated([(3.0, 1.0)]),
    cw.Amdahl(1.0),
    cw.Amdahl(0.97),
    cw.PowerLaw(0.0),
    cw.Usl(0.2, 0.0),
]


def system_of(classes: int, cores: float = 6.5) -> cw.System:
    return cw.System(
        cores,
        [
            cw.JobClass(
                f"c{i}", 0.7 * cores / classes, 1.0 + 0.1 * (i % 7), CURVES[i % len(CURVES)], 1.0 + (i % 3)
            )
            for i in range(classes)
        ],
    )


POLICIES: dict[str, Callable[[cw.System], cw.Policy]] = {
    "whittle": lambda _: cw.Whittle(),
    "greedy": lambda _: cw.Greedy(),
    "equi": lambda _: cw.Equi(),
    "priority": lambda system: cw.Priority(system.names[::-1]),
}
EVERY_POLICY = pytest.mark.parametrize("policy", POLICIES)


def levels_of(policy: str, system: cw.System) -> Any:
    levels = POLICIES[policy](system).on(system).decision
    assert isinstance(levels, Levels)
    return levels.steps


# --- curves and arrivals --------------------------------------------------------------------------


@pytest.mark.parametrize("cores", [0.5, 1.0, 6.5, 200.0])
def test_speeds_are_those_of_the_curves(cores: float) -> None:
    """To rounding for the families; a curve of no family is read off nodes, 1e-7 or so off."""
    system = system_of(len(CURVES), cores)
    curves, offsets, points = curve_arrays(system)
    widths = np.unique(np.concatenate([[0.0, 0.3, 1.0, 2.0, 3.0, 5.0], np.geomspace(1e-3, cores, 60)]))
    for i, curve in enumerate(CURVES):
        exact = 1e-7 if isinstance(curve, Logarithmic) else 1e-14
        for z in widths[widths <= cores].tolist():
            found = same(loose_kernels.speed, curves, offsets, points, i, z)
            assert found == pytest.approx(float(curve.rate(z)), rel=exact, abs=0.0)


@pytest.mark.parametrize(
    "weights", [[1.0], [1.0, 3.0], [2.0, 2.0, 2.0, 2.0], [0.5, 0.25, 0.125, 4.0, 0.125], [1.0, 1e6, 3.0]]
)
def test_the_alias_table_stands_for_the_probabilities(weights: Sequence[float]) -> None:
    """A cell is as likely as any; it keeps its share, and the rest is the other's: sums of fractions."""
    shares, others = alias_table(np.array(weights))
    chances = [Fraction(0)] * len(weights)
    for i, (share, other) in enumerate(zip(shares.tolist(), others.tolist(), strict=True)):
        assert 0.0 <= share <= 1.0
        chances[i] += Fraction(share)
        chances[other] += 1 - Fraction(share)
    assert sum(chances) == len(weights)
    for chance, weight in zip(chances, weights, strict=True):
        right = len(weights) * Fraction(weight) / sum(map(Fraction, weights))
        assert float(abs(chance - right)) <= 1e-15 * len(weights)


def test_the_alias_table_of_many_weights() -> None:
    weights = np.random.default_rng(1).exponential(size=1000) ** 3
    shares, others = alias_table(weights)
    chances = shares + np.bincount(others, 1.0 - shares, weights.size)
    assert np.allclose(chances / weights.size, weights / weights.sum(), rtol=1e-9, atol=1e-15)


# --- the grid of widths ---------------------------------------------------------------------------


@pytest.mark.parametrize("cores", [0.4, 1.0, 1.5, 6.5, 100.0, 1000.0, 1e6])
def test_the_grid_keeps_what_estimates_need(cores: float) -> None:
    """Σ W, Σ z W and Σ D for all widths, Σ z D above one core; the rate of departures is right below it.

    Nodes are powers 2^(j/m), m a power of two, as those of `Statistics` are.
    """
    grid = width_grid(cores)
    per_octave = octave_parts(grid)
    assert grid[0] == 0.0
    assert np.allclose(np.log2(grid[1:]) * per_octave, np.arange(grid.size - 1), rtol=0, atol=1e-9)
    assert math.log2(per_octave).is_integer()
    assert 1 <= per_octave <= 128
    assert grid[-1] > cores
    assert grid.size < 1100
    rng = np.random.default_rng(3)
    widths = [0.0, 1.0, cores, *grid[grid <= cores].tolist()[:40], *rng.uniform(0.0, cores, 40).tolist()]
    for z in widths:
        node, upper = same(loose_kernels._share, grid, per_octave, z)
        assert 0.0 <= upper <= 1.0
        assert (1.0 - upper) * grid[node] + upper * grid[node + 1] == pytest.approx(z, rel=1e-12, abs=0.0)
        held, left = np.zeros((2, grid.size)), np.zeros((2, grid.size))
        same(loose_kernels.count_time, grid, per_octave, held, 1, z, 0.7)
        same(loose_kernels.count_departure, grid, per_octave, left, 1, z)
        assert not held[0].any()
        assert not left[0].any()
        assert held[1].sum() == pytest.approx(0.7, rel=1e-12)
        assert held[1] @ grid == pytest.approx(0.7 * z, rel=1e-12, abs=0.0)
        assert left[1].sum() == pytest.approx(1.0, rel=1e-12)
        assert left[1, 0] == 0.0
        assert left[1] @ grid == pytest.approx(max(z, 1.0), rel=1e-12)


# --- the level ------------------------------------------------------------------------------------


class Moving:
    """A level that follows arrivals and departures as a path does, kernels next to their sources."""

    def __init__(self, policy: str, system: cw.System) -> None:
        self.cores, self.levels = system.cores, levels_of(policy, system)
        self.n = np.zeros(len(system.classes), dtype=np.int64)
        self.sums, self.level = np.zeros(5), np.zeros(4)
        self.find()

    def find(self) -> None:
        steps, _, order, first, at, tails, nodes, owner, rows = self.levels.arrays
        same(
            level_kernels.find_level,
            *(steps, order, first, at, rows, owner, tails, nodes),
            *(self.n, int(self.n.sum()), self.cores, self.sums, self.level),
        )

    def move(self, i: int, change: int) -> None:
        steps, own = self.levels.steps, self.levels.own
        for e in range(own[i], own[i + 1]):
            if steps[e, level_kernels.GROUP] < self.level[level_kernels.G]:
                same(level_kernels.add_step, steps, e, change, self.sums)
        self.n[i] += change
        self.find()

    def held(self) -> Any:
        levels = self.levels
        widths = [
            same(level_kernels.width, levels.steps, levels.own, levels.tails, levels.nodes, self.level, i)
            for i in range(self.n.size)
        ]
        return self.n * np.where(self.n > 0, widths, 0.0)


@EVERY_POLICY
@pytest.mark.parametrize("classes", [1, 4, 15])
def test_the_parts_of_a_level(policy: str, classes: int) -> None:
    """Along a path of arrivals and departures, from empty to more jobs than cores and back."""
    system = system_of(classes)
    moving, rng = Moving(policy, system), np.random.default_rng(classes)
    curves, offsets, points = curve_arrays(system)
    levels = moving.levels
    shape = (levels.steps, levels.own, levels.tails, levels.nodes)
    for step in range(120):
        up = rng.random() < (0.8 if step < 60 else 0.3) or not moving.n.any()
        who = rng.integers(classes) if up else rng.choice(np.flatnonzero(moving.n))
        moving.move(int(who), 1 if up else -1)
        if not moving.n.any():
            continue
        assert moving.held().sum() == pytest.approx(system.cores, rel=1e-11)
        sums, above = moving.sums.copy(), np.zeros(4)
        same(
            level_kernels.restart,
            *(levels.steps, levels.order, levels.first, levels.owner, moving.n, sums, moving.level),
        )
        assert np.allclose(sums, moving.sums, rtol=0, atol=1e-9)
        same(walk_kernels._ceiling, levels.at, moving.level, above)
        for i in range(classes):
            bound = same(walk_kernels._bound, *shape, curves, offsets, points, above, system.cores, i)
            rise = same(level_kernels._rise, *shape, moving.level, i)
            if moving.n[i] > 0:
                width = level_kernels.width(*shape, moving.level, i)
                higher = moving.level * np.where(np.arange(4) == level_kernels.T, 1.0 + 1e-7, 1.0)
                if moving.level[level_kernels.T] < math.inf:
                    slope = (level_kernels.width(*shape, higher, i) - width) / 1e-7
                    assert rise == pytest.approx(slope, rel=1e-3, abs=1e-5)
                assert system.classes[i].speedup.rate(width) <= bound * (1.0 + 1e-7)


@pytest.mark.parametrize("t", [0.0, 0.9, 1.7, math.inf])
def test_straight_and_curved_demand(t: float) -> None:
    for linear, square in ((0.0, 0.0), (2.0, 0.0), (0.0, 3.0), (2.0, 3.0)):
        found = same(level_kernels._straight_demand, linear, square, t)
        grown = (linear + square * t) * t if t < math.inf else math.inf
        assert found == (grown if linear + square > 0.0 else 0.0)
    system = system_of(15)
    steps, _, _, _, at, tails, nodes, owner, rows = levels_of("whittle", system).arrays
    n = np.arange(15) % 3
    groups = np.flatnonzero(at <= t).size
    if t > 0.0:
        same(level_kernels._curved_demand, steps, rows, owner, tails, nodes, n, float(groups), t)


@pytest.mark.parametrize("free", [0.5, 4.0, 30.0])
def test_the_level_of_curved_tails(free: float) -> None:
    """Demand meets what is free; from any first guess."""
    system = system_of(15, 60.0)
    steps, _, _, _, at, tails, nodes, owner, rows = levels_of("whittle", system).arrays
    n, low = np.ones(15, dtype=np.int64), float(at[-1])
    below = level_kernels._curved_demand(steps, rows, owner, tails, nodes, n, float(at.size), low)[0]
    free += below + 2.0 * low
    for guess, high in ((0.0, math.inf), (1.5, math.inf), (1e9, math.inf), (1.1, 1e3)):
        t = same(
            level_kernels._curved_level,
            *(
                steps,
                rows,
                owner,
                tails,
                nodes,
                n,
                2.0,
                0.0,
                free,
                float(at.size),
                low,
                high * low,
                guess * low,
            ),
        )
        held = level_kernels._curved_demand(steps, rows, owner, tails, nodes, n, float(at.size), t)[0]
        assert held + 2.0 * t == pytest.approx(free, rel=1e-12)


@EVERY_POLICY
def test_levels_of_many_states(policy: str) -> None:
    """One after the other from wherever the last one was: as each on its own."""
    system = system_of(15)
    arrays = levels_of(policy, system).arrays
    counts = np.random.default_rng(5).poisson(np.array([0.2, 1.0, 3.0, 0.0] * 10), (15, 40))
    flat = Packed(level_kernels.level_states, (9, None, None, None))
    held = np.empty(counts.shape)
    same(flat, *arrays, system.cores, counts, held)
    for state, cores in zip(counts.T, held.T, strict=True):
        alone = np.empty((15, 1))
        level_kernels.level_states(arrays, system.cores, np.ascontiguousarray(state[:, None]), alone)
        assert np.allclose(alone[:, 0], cores, rtol=0, atol=1e-10)
    some = counts.any(axis=0)
    assert np.allclose(held.sum(axis=0), np.where(some, system.cores, 0.0), rtol=1e-11)


STRAIGHT: list[cw.SpeedUp] = [
    *(cw.Amdahl(p) for p in (0.0, 1e-12, 0.3, 0.6, 1.0 - 1e-12, 1.0)),
    *(cw.Gustafson(p) for p in (0.0, 0.4, 1.0)),
    cw.Usl(0.1, 0.0),
    cw.Tabulated([(2.0, 1.8), (5.0, 3.0)]),
]


@EVERY_POLICY
def test_places_are_those_of_the_level(policy: str) -> None:
    """Without curved tails: found in closed form as by walking up the steps, ties and infinite prices too."""
    rng, straight = np.random.default_rng(3), 0
    for classes in (1, 2, 3, 6):
        for cores in (0.7, 8.0, 300.5):
            jobs = [
                cw.JobClass(
                    f"c{i}", 1.0, float(rng.choice([1.0, 3.0])), curve, weight=float(rng.choice([1.0, 2.5]))
                )
                for i, curve in enumerate(rng.choice(np.array(STRAIGHT, dtype=object), classes))
            ]
            levels = levels_of(policy, cw.System(cores, jobs))
            straight += not len(levels.tails)
            counts = rng.poisson(rng.choice([0.3, 3.0, 200.0], (classes, 1)), (classes, 30))
            counts[:, 0] = 0
            walked, placed = np.empty(counts.shape), np.empty(counts.shape)
            level_kernels.level_states(levels.arrays, cores, counts, walked)
            places = Places.of(cores, classes, levels.steps, levels.owner, levels.at)
            arrays = (places.demand, places.bought, places.ends)
            same(level_kernels._place, cores, places.demand, counts, 1)
            same(level_kernels.place_states, cores, *arrays, counts, placed)
            assert np.allclose(placed, walked, rtol=0, atol=1e-13 * cores)
    assert straight == 12


# --- the walk -------------------------------------------------------------------------------------


class Packed:
    """A kernel with tuples of arrays among its arguments, taken one by one so that each is compared.

    `shape` has the length of each tuple, and None for what is no tuple.
    """

    def __init__(self, kernel: Any, shape: Sequence[int | None]) -> None:
        self.kernel, self.shape, self.__name__ = kernel, shape, kernel.__name__

    def _packed(self, flat: Sequence[Any]) -> list[Any]:
        rest, packed = list(flat), []
        for size in self.shape:
            packed.append(rest.pop(0) if size is None else tuple(rest.pop(0) for _ in range(size)))
        assert not rest
        return packed

    def __call__(self, *flat: Any) -> Any:
        return self.kernel(*self._packed(flat))

    def py_func(self, *flat: Any) -> Any:
        return self.kernel.py_func(*self._packed(flat))


def test_drawing_by_blocks() -> None:
    """Every class has its weight of the line; what rounding adds to the end belongs to the last."""
    weights = np.zeros(70)
    weights[[0, 3, 31, 32, 60, 69]] = [1.0, 2.0, 0.5, 4.0, 0.25, 3.0]
    blocks = np.add.reduceat(weights, [0, 32, 64])
    edges = np.cumsum(weights)
    for x in [*np.linspace(0.0, edges[-1], 200, endpoint=False).tolist(), *(edges[edges < 10.75]).tolist()]:
        i, left = same(walk_kernels._draw, blocks, weights, x)
        assert i == np.searchsorted(edges, x, side="right")
        assert left == pytest.approx(x - (edges[i] - weights[i]), abs=1e-12)
    assert same(walk_kernels._draw, blocks, weights, edges[-1] + 1e-9)[0] == 69


@EVERY_POLICY
@pytest.mark.parametrize(
    ("classes", "tally", "record"), [(1, True, True), (6, False, True), (40, True, False)]
)
def test_walks(policy: str, classes: int, tally: bool, record: bool) -> None:
    """Every draw, count, area, time and record, to the last bit; ends by time, by events, by departures."""
    system = system_of(classes)
    fixed = (*levels_of(policy, system).arrays, system.cores)
    walk = Packed(walk_kernels.level_chain, (None, 9, None, 7, None, None, None, 3, 2, *(None,) * 4))
    check_walk(walk, fixed, system, tally=tally, record=record)


def check_walk(
    walk: Packed,
    fixed: Sequence[Any],
    system: cw.System,
    memory: Sequence[Any] = (),
    *,
    tally: bool,
    record: bool,
) -> None:
    """Compare a walk with its source; `fixed` is what the policy is to it."""
    classes = len(system.classes)
    shares, others = alias_table(system.arrival_rates)
    plant = (*curve_arrays(system), system.size_rates, system.arrival_rates, shares, others)
    grid = width_grid(system.cores) if tally else np.empty(0)
    counted = (grid, np.zeros((classes, grid.size)), np.zeros((classes, grid.size)))
    room = 300 if record else 0
    kept = (np.zeros(room), np.zeros(room, dtype=np.int16))
    n, areas, moves = np.arange(classes) % 2, np.zeros(classes), np.zeros(2 * classes, dtype=np.int64)
    rng, clock, ends, done = np.random.default_rng(classes), 0.0, set(), 0
    for length, events, departures in ((5.0, 300, 10**6), (math.inf, 40, 10**6), (math.inf, 300, 25)):
        began, before = clock, areas.copy()
        clock, done, left = same(
            walk,
            rng,
            *fixed,
            *plant,
            *memory,
            *(n, areas, moves),
            *counted,
            *kept,
            *(clock, clock + length, events, departures),
        )
        ends.add("time" if clock == began + length else "events" if done == events else "departures")
        assert done <= events
        assert left <= departures
        assert np.all(areas >= before)
    assert ends == {"time", "events", "departures"}
    assert np.array_equal(n, np.arange(classes) % 2 + moves[:classes] - moves[classes:])
    if tally:
        assert counted[1].sum() == pytest.approx(moves[classes:].sum())
        assert np.allclose(counted[2].sum(axis=1), areas, rtol=1e-9)
    if record:
        assert np.all(np.diff(kept[0][:done]) > 0.0)


# --- states that are remembered -------------------------------------------------------------------


@pytest.mark.parametrize("classes", [1, 2, 5, 15])
def test_what_is_remembered_of_a_state(classes: int) -> None:
    """Jobs, rates of moves added up as far as one of them can be drawn, the sum of all, and widths."""
    system, rng = system_of(classes), np.random.default_rng(classes)
    seen = StateCache.of(classes, 1).seen
    for empty in (True, False):
        n = rng.poisson(0.0 if empty else 0.8, classes)
        widths = rng.uniform(0.1, 6.5, classes)
        same(
            loose_kernels.remember_rates,
            *(seen, 1, n, widths, *curve_arrays(system), system.size_rates, system.arrival_rates),
        )
        speeds = [float(c.speedup.rate(z)) for c, z in zip(system.classes, widths, strict=True)]
        rates = np.concatenate([system.arrival_rates, n * system.size_rates * speeds])
        jobs, upto, held = np.split(seen[1], [classes, 3 * classes])
        assert np.array_equal(jobs, n)
        assert np.array_equal(held, np.where(n > 0, widths, 0.0))
        assert upto[-1] == pytest.approx(rates.sum(), rel=1e-6)
        last = int(np.flatnonzero(rates)[-1])
        assert np.allclose(upto[:last], np.cumsum(rates)[:last], rtol=1e-6)
        assert np.all(np.isinf(upto[last:-1]))
        assert np.all(seen[0] == -1.0)


@pytest.mark.parametrize("classes", [1, 2, 5])
def test_many_states_are_remembered_as_one_by_one(classes: int) -> None:
    """The rows of the kernel, where they are; of states that meet in a row the last one is remembered."""
    system, rng = system_of(classes), np.random.default_rng(classes)
    for numbers in (1, 2**14):
        counts, widths = rng.poisson(0.8, (classes, 40)), rng.uniform(0.1, 6.5, (classes, 40))
        counts[:, 7] = 0
        widths[counts == 0] = 0.0
        ours, theirs = (StateCache.of(classes, numbers) for _ in range(2))
        speeds = np.stack([c.curve.rate(z) for c, z in zip(system.classes, widths, strict=True)])
        leaving = counts * system.size_rates[:, None] * speeds
        ours.remember(counts, system.arrival_rates, leaving, widths)
        for n, z in zip(counts.T.copy(), widths.T.copy(), strict=True):
            row = (n @ theirs.units >> loose_kernels.FINE) % len(theirs.seen)
            plant = (*curve_arrays(system), system.size_rates, system.arrival_rates)
            loose_kernels.remember_rates(theirs.seen, row, n, z, *plant)
        assert np.array_equal(np.isinf(ours.seen), np.isinf(theirs.seen))
        assert np.allclose(ours.seen, theirs.seen, rtol=1e-6)
        assert np.any(ours.seen >= 0.0)


def test_a_walk_stops_where_it_does_not_know() -> None:
    """Before it draws anything; in a state that it knows it draws one event, and then asks for the next."""
    system = system_of(3)
    seen, units, _ = StateCache.of(3, 2**12).arrays
    walk = Packed(loose_kernels.known_chain, (*(None,) * 6, 3, 2, *(None,) * 5))
    n, areas, moves = np.array([2, 0, 1]), np.zeros(3), np.zeros(6, dtype=np.int64)
    rng, tally, record = np.random.default_rng(1), (np.empty(0), *np.zeros((2, 3, 0))), np.empty(0)
    path = (seen, units, n, areas, moves, *tally, record, np.empty(0, dtype=np.int16))

    def go_on(until: float) -> Any:
        return same(walk, rng, *path, 0.0, until, 0, 100, 50)

    fresh = rng.bit_generator.state
    row, clock, event, left = go_on(math.inf)
    assert (clock, event, left) == (0.0, 0, 50)
    assert not areas.any()
    assert not moves.any()
    assert row == (n @ units >> loose_kernels.FINE) % len(seen)
    assert rng.bit_generator.state == fresh
    widths = np.array([1.5, 0.0, 3.5])
    loose_kernels.remember_rates(
        seen, row, n, widths, *curve_arrays(system), system.size_rates, system.arrival_rates
    )
    assert go_on(1e-9)[:3] == (-1, 1e-9, 0)
    assert areas == pytest.approx(1e-9 * n)
    other, clock, event, left = go_on(math.inf)
    assert other not in (-1, row)
    assert (event, moves.sum(), 50 - left) == (1, 1, moves[3:].sum())
    assert np.array_equal(n - [2, 0, 1], moves[:3] - moves[3:])
    assert areas == pytest.approx((1e-9 + clock) * np.array([2, 0, 1]))


@pytest.mark.parametrize("classes", [1, 2, 3, 4])
def test_near_states_do_not_share_a_row(classes: int) -> None:
    """All states of a box of an eighth of the rows have one each; drawn at random, many would meet."""
    memory = StateCache.of(classes, 2**17)
    rows = len(memory.seen)
    assert rows * 4 * classes <= 2**17 < 2 * rows * 4 * classes
    side = int((rows / 8) ** (1 / classes))
    states = np.indices((side,) * classes).reshape(classes, -1)
    assert np.unique((memory.units @ states >> loose_kernels.FINE) % rows).size == side**classes


@EVERY_POLICY
def test_what_is_remembered_does_not_matter(policy: str) -> None:
    """The same path with room for two states as with room for all; levels are found to rounding."""
    system = system_of(3)
    paths = []
    for room in (1, 2**17):
        kind = type("Asking", (LevelChain,), {"patience": 10**9, "numbers": room})
        start, rng = cw.results.State((0, 0, 0)), np.random.default_rng(3)
        walk = kind(system, POLICIES[policy](system).on(system), start, rng, record=True)
        walk.run_departures([2000], None)
        paths.append(walk.finish()[1])
    few, many = paths
    assert few is not None
    assert many is not None
    assert np.array_equal(few.counts, many.counts)
    assert np.allclose(few.time, many.time, rtol=1e-9)


# --- fitted values --------------------------------------------------------------------------------


def fitted_rule(system: cw.System, limit: float) -> Fitted:
    """Any values, trusted up to so many jobs of a class and of all; no good, but a policy."""
    classes = len(system.classes)
    return Fitted(system, some_values(classes), np.full(classes + 1, limit))


@pytest.mark.parametrize("classes", [2, 4, 15])
def test_the_parts_of_a_decision_by_values(classes: int) -> None:
    """Widths as the rule has them, whatever the level is guessed to be."""
    system = system_of(classes)
    rule, rng = fitted_rule(system, 5.0), np.random.default_rng(classes)
    for guess in (0.0, 0.4, 1.0, 30.0):
        n = rng.poisson(rng.choice([0.3, 1.0, 3.0]), classes)
        n[0] += 1
        offers, single = rule.offers(n[:, None])
        room = Room(offers[:, 0].copy(), np.ones(classes), *np.zeros((3, classes)))
        demands = (rule.single if single[0] else rule.shapes).arrays
        same(fitted_kernels.share, demands, system.cores, n, room, guess)
        assert np.allclose(n * room.widths, rule(n[:, None])[:, 0], rtol=0, atol=1e-10)
        room = Room(
            np.zeros(classes), np.ones(classes), np.zeros(classes), np.full(8, guess), np.zeros(classes)
        )
        same(fitted_kernels.fitted_widths, rule.arrays, system.cores, n, room)
        assert np.allclose(n * room.widths, rule(n[:, None])[:, 0], rtol=0, atol=1e-10)


@pytest.mark.parametrize(
    ("classes", "tally", "record"), [(1, True, True), (6, False, True), (15, True, False)]
)
def test_walks_by_values(classes: int, tally: bool, record: bool) -> None:
    """Every draw, count, area, time and record, to the last bit; ends by time, by events, by departures."""
    system = system_of(classes)
    rule = fitted_rule(system, 4.0)
    fixed = (rule.arrays, system.cores)
    walk = Packed(fitted_kernels.fitted_chain, (None, None, None, 7, 3, None, None, None, 3, 2, *(None,) * 4))
    for numbers in (1, 2**12):
        check_walk(walk, fixed, system, StateCache.of(classes, numbers).arrays, tally=tally, record=record)


def paths_of_jobs(system: cw.System, policy: cw.Policy, kind: type[RememberedJobs]) -> tuple[Any, ...]:
    start, rng = State((0,) * len(system.classes)), np.random.default_rng(3)
    loop = kind(
        system, policy.on(system), RandomJobs(system, rng, start), start, rng, record=True, tally=True
    )
    loop.run_departures([40, 60], None)
    path = loop.finish()[1]
    assert path is not None
    return path.time.tolist(), path.job.tolist(), path.cores.tolist(), loop.areas, loop.statistics()


@pytest.mark.parametrize("classes", [2, 5])
def test_loops_over_every_job_are_their_sources(classes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Paths, areas and statistics to the last bit, with a compiled loop and with the source of it."""
    system = system_of(classes)
    by_values = BoundPolicy(system, "by values", fitted_rule(system, 7.0))
    loops: list[tuple[cw.Policy, type[RememberedJobs], Any, str]] = [
        (cw.Whittle(), LevelJobs, walk_kernels.level_jobs, "levels.level_jobs"),
        (by_values, FittedJobs, fitted_kernels.fitted_jobs, "fitted.fitted_jobs"),
    ]
    for policy, kind, kernel, name in loops:
        compiled = paths_of_jobs(system, policy, kind)
        monkeypatch.setattr(f"corewise.simulation.decisions.{name}", _interpreted(kernel.py_func))
        with np.errstate(all="ignore"):
            assert np.all(
                [
                    same_values(*pair)
                    for pair in zip(compiled, paths_of_jobs(system, policy, kind), strict=True)
                ]
            )


def test_every_kernel_is_compared_here() -> None:
    """A new one has to be added."""
    source = Path(__file__).read_text(encoding="utf-8")
    for module, alias in MODULES.items():
        assert not_compared(module, alias, source) == []
