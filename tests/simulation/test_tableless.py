"""Policies that are one water level, and paths without tables.

The level is compared with the split by a price that the Bellman equation uses, and with a price that is
bisected (naive.py); paths with exact analysis where there is one, with closed forms for more classes, and
with a twin that follows single jobs (naive_jobs.py).
"""

from __future__ import annotations

import math
import multiprocessing
import pickle
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy import stats

import corewise as cw
from corewise.kit.arrays import Floats
from corewise.policies.base import BoundPolicy
from corewise.policies.decisions import Levels
from corewise.policies.waterfill import _kernels as split_kernels
from corewise.policies.waterfill.demand import index_shapes, linear_width, marginal_shapes
from corewise.policies.waterfill.levels import _kernels as kernels
from corewise.policies.waterfill.split import split
from corewise.simulation.decisions.fitted import FittedChain
from corewise.simulation.decisions.levels import LevelChain
from corewise.simulation.decisions.table import TableChain
from corewise.simulation.paths import first_walk
from corewise.simulation.window import Window
from tests.helpers import naive, naive_jobs
from tests.simulation.test_simulate import mean_zero, stays, times_arrivals, window_of
from tests.simulation.test_tableless_kernels import Logarithmic, fitted_rule

pytestmark = pytest.mark.slow

Build = Callable[[naive.Model], cw.System]

FALSE_ALARM = 1e-6
"""The probability that a statistical test below fails although all is well, over all its cases together."""

ENGINES = ["departures", "time"]


class Forgetful(LevelChain):
    few = 0


class Remembering(LevelChain):
    few = 10**9
    likely = 10**18


class Impatient(Remembering):
    patience = 3


KINDS = {"anew": Forgetful, "remembered": Remembering, "soon anew": Impatient}
EVERY_KIND = pytest.mark.parametrize("kind", KINDS)
AMDAHL, POWER, GUSTAFSON, USL = naive.amdahl, naive.power, naive.gustafson, naive.usl

# --- the level ------------------------------------------------------------------------------------


class Level:
    """The level of a bound policy, moved along as a path does it."""

    def __init__(self, policy: BoundPolicy) -> None:
        assert isinstance(policy.decision, Levels)
        self.levels = policy.decision.steps
        self.n = np.zeros(len(policy.system.classes), dtype=np.int64)
        self.sums, self.level = np.zeros(5), np.zeros(4)
        self._find()

    def _find(self) -> None:
        a = self.levels
        shape = (a.steps, a.order, a.first, a.at, a.arrays[8], a.owner, a.tails, a.nodes)
        kernels.find_level(*shape, self.n, self.n.sum(), a.cores, self.sums, self.level)

    def move(self, i: int, change: int) -> None:
        a = self.levels
        for e in range(a.own[i], a.own[i + 1]):
            if a.steps[e, kernels.GROUP] < self.level[kernels.G]:
                kernels.add_step(a.steps, e, change, self.sums)
        self.n[i] += change
        self._find()

    def wander(self, rng: np.random.Generator, about: float) -> None:
        """Let a job come or leave, so that there are about so many."""
        jobs = int(self.n.sum())
        if jobs == 0 or rng.random() * (about + jobs) < about:
            self.move(int(rng.integers(self.n.size)), 1)
        else:
            self.move(int(rng.choice(np.flatnonzero(self.n))), -1)

    @property
    def cores(self) -> Floats:
        a = self.levels
        widths = [kernels.width(a.steps, a.own, a.tails, a.nodes, self.level, i) for i in range(self.n.size)]
        return np.asarray(self.n * np.where(self.n > 0, widths, 0.0))


def filled(wanted: Floats, left: float, keys: Sequence[Any]) -> Floats:
    """Everybody what they want in the order of keys, those with equal keys in proportion."""
    given = np.zeros(wanted.size)
    for key in sorted(set(keys)):
        group = np.array([other == key for other in keys])
        asked = wanted[group].sum()
        part = min(left / asked, 1.0) if asked > 0.0 else 0.0
        given[group] = part * wanted[group]
        left = max(left - asked, 0.0)
    return given


class ByPrice:
    """Whittle and GREEDY* as their definitions say, with the split of the Bellman equation; EQUI."""

    def __init__(self, policy: str, system: cw.System) -> None:
        self.policy, self.system = policy, system
        self.shapes = (marginal_shapes if policy == "greedy" else index_shapes)(system)
        self.speeds = [float(c.speedup.rate(system.cores)) for c in system.classes]
        self.straight = np.array([linear_width(c.speedup, system.cores) for c in system.classes])

    def __call__(self, counts: naive.Counts) -> Floats:
        """The cores of each class, counts and cores of shape (states, K)."""
        cores, worth = self.system.cores, self.system.weights * self.system.size_rates
        columns = np.ascontiguousarray(counts.T)
        if self.policy == "equi":
            return np.asarray(cores * counts / np.maximum(counts.sum(axis=1), 1)[:, None])
        if self.policy == "greedy":
            return np.array([self._least_parallel_first(n, worth) for n in counts])
        keys, held = list(zip((-worth).tolist(), self.speeds, strict=True)), np.zeros(counts.shape)
        for k, n in enumerate(counts):
            held[k] = filled(n.astype(float), cores, keys)
            held[k] += filled(n * (self.straight - 1.0), max(cores - held[k].sum(), 0.0), keys)
        left = np.maximum(cores - held.sum(axis=1), 0.0)
        return np.asarray(held + split(self.shapes, columns, self.system.weights, left).T)

    def _least_parallel_first(self, n: Any, worth: Floats) -> Floats:
        """GREEDY* in one state: the split, and what jumps at its price by s(c)."""
        cores, present = self.system.cores, np.flatnonzero(n)
        if present.size == 1:
            return np.asarray(cores * (n > 0))
        demands, starts = (self.shapes.tails, self.shapes.pieces, self.shapes.nodes), 1.0 / np.sqrt(worth)
        held = np.empty(n.size)
        t = split_kernels._split(*demands, n, starts, cores, held, 0.0, math.inf)
        least, most = (
            np.array([k * split_kernels._width(*demands, i, starts[i], t, top) for i, k in enumerate(n)])
            for top in (False, True)
        )
        jumps = most - least
        if jumps.sum() <= 0.0:
            return held
        return np.asarray(least + filled(jumps, cores - least.sum(), self.speeds))


def random_system(rng: np.random.Generator, classes: int) -> cw.System:
    """Any families, many ties: classes that are alike, equal h μ, p at 0, ½ and 1; cores below one too."""

    def curve() -> cw.SpeedUp:
        u = float(rng.choice([0.0, 1.0, 0.5, 0.999, rng.uniform(), rng.uniform()]))
        families: list[Callable[[], cw.SpeedUp]] = [
            lambda: cw.Amdahl(u),
            lambda: cw.PowerLaw(u),
            lambda: cw.Gustafson(u),
            lambda: cw.Usl(u / 2.0, u / 20.0),
            lambda: cw.Tabulated([(2.0, 1.25 + 0.75 * u), (5.0, 2.0 + u)]),
            lambda: Logarithmic(max(u, 0.05)),
        ]
        return families[rng.integers(len(families))]()

    jobs: list[cw.JobClass] = []
    for i in range(classes):
        size, weight, law = float(rng.choice([0.5, 1.0, 2.0, rng.uniform(0.2, 4.0)])), 1.0, curve()
        weight = float(rng.choice([1.0, 1.0, 2.0, 1.0 / size, rng.uniform(0.2, 5.0)]))
        if jobs and rng.random() < 0.3:
            other = jobs[rng.integers(len(jobs))]
            size, weight, law = other.known_size_rate, other.weight, other.speedup
        jobs.append(cw.JobClass(f"c{i}", 1.0, size, law, weight))
    return cw.System(float(rng.choice([0.3, 0.8, 1.0, 2.5, 4.0, 8.0, 17.3, 64.0, 300.0])), jobs)


@pytest.mark.parametrize("policy", ["whittle", "greedy", "equi"])
@pytest.mark.parametrize("classes", [1, 2, 3, 5, 10, 25, 40])
def test_the_level_holds_the_cores_that_a_price_would(classes: int, policy: str) -> None:
    """Moved from state to state, with few jobs, as many as cores, and far more; and from scratch."""
    rules: dict[str, cw.Policy] = {"whittle": cw.Whittle(), "greedy": cw.Greedy(), "equi": cw.Equi()}
    for seed in range(8):
        rng = np.random.default_rng([classes, seed])
        system = random_system(rng, classes)
        bound = rules[policy].on(system)
        level, about = Level(bound), 1.0 + system.cores * float(rng.choice([0.3, 1.0, 4.0]))
        states, held = [], []
        for _ in range(40):
            level.wander(rng, about)
            if level.n.any():
                states.append(level.n.copy())
                held.append(level.cores)
        expected, close = ByPrice(policy, system)(np.array(states)), 1e-9 * system.cores
        assert np.allclose(held, expected, rtol=0, atol=close)
        assert np.allclose(bound.allocate(states), expected, rtol=0, atol=close)


@pytest.mark.parametrize("classes", [1, 2, 7, 40])
def test_priority_as_a_level(classes: int) -> None:
    rng = np.random.default_rng(classes)
    system = random_system(rng, classes)
    order = [system.names[i] for i in rng.permutation(classes)]
    level = Level(cw.Priority(order).on(system))
    for _ in range(60):
        level.wander(rng, 3.0)
        if level.n.any():
            first = next(system.index(name) for name in order if level.n[system.index(name)] > 0)
            assert np.allclose(level.cores, system.cores * np.eye(classes)[first], rtol=1e-12, atol=0)


@pytest.mark.parametrize("cores", [0.6, 9.5])
def test_the_level_is_that_of_a_bisected_price(as_system: Build, cores: float) -> None:
    """The twin knows nothing of steps: it bisects the price and the width of every class."""
    curves = [AMDAHL(0.6), POWER(0.5), GUSTAFSON(0.3), USL(0.1, 0.02), AMDAHL(0.97), AMDAHL(0.0), POWER(0.8)]
    sizes, weights = [1.0, 2.2, 0.7, 1.5, 3.0, 0.9, 1.1], [1.0, 1.3, 2.0, 0.6, 1.0, 1.7, 0.8]
    jobs = tuple(naive.Job(1.0, m, s, h) for m, s, h in zip(sizes, curves, weights, strict=True))
    model, rng = naive.Model(cores, jobs), np.random.default_rng(9)
    counts = rng.poisson(rng.choice([0.2, 0.5, 2.0], 60)[:, None], (60, 7))
    counts = counts[counts.any(axis=1)]
    system = as_system(model)
    for rule, policy in ((naive.whittle, cw.Whittle()), (naive.greedy, cw.Greedy())):
        found, expected = policy.on(system).allocate(counts), rule(model, counts)
        ours, theirs = (naive.departures(model, counts, x) for x in (found, expected))
        # What nobody gains from may go to anybody; so widths are compared where they matter.
        assert np.allclose(ours, theirs, rtol=0, atol=1e-7 * cores)
        assert np.allclose(found.sum(axis=1), cores, rtol=1e-11)


@pytest.mark.parametrize("policy", [cw.Whittle(), cw.Greedy()], ids=["whittle", "greedy"])
@pytest.mark.parametrize("seed", range(12))
def test_a_level_within_rounding_of_a_step_is_found(policy: cw.Policy, seed: int) -> None:
    """Fractions like ⅕, ½ and ⅘ and sizes 1, 4, 9: tails begin just where all cores are held.

    On one side of such a step rounding may say that too much is held and on the other too little.
    """
    rng = np.random.default_rng([seed, 10])
    jobs = []
    for i in range(int(rng.integers(2, 5))):
        p = float(rng.choice([0.2, 0.5, 0.8, 0.9, 0.1, 0.75, 0.25, 0.36, 0.64, 0.04, 0.96]))
        curve = (cw.Amdahl, cw.Amdahl, cw.PowerLaw, cw.Gustafson)[rng.integers(4)](p)
        size, weight = (float(rng.choice([1.0, 4.0, 9.0, 0.25])) for _ in range(2))
        jobs.append(cw.JobClass(f"c{i}", 1.0, size, curve, weight))
    system = cw.System(float(rng.choice([4, 6, 7, 8, 9, 10, 12, 13, 16, 20])), jobs)
    level, states, held = Level(policy.on(system)), [], []
    for _ in range(1500):
        level.wander(rng, system.cores)
        states.append(level.n.copy())
        held.append(level.cores)
    expected = ByPrice(policy.name, system)(np.array(states))
    assert np.allclose(held, expected, rtol=0, atol=1e-9 * system.cores)


# --- means against exact analysis -----------------------------------------------------------------

WINDOWS, LENGTH = 24, 30_000
FOUR = (
    (AMDAHL(0.5), USL(0.2, 0.05), POWER(1.0), POWER(0.4)),
    (AMDAHL(0.0), AMDAHL(0.9), POWER(0.5), AMDAHL(1.0)),
)
CASES: dict[str, tuple[naive.Model, cw.Policy]] = {
    "two-whittle": (
        naive.two(6.0, (1.8, 5.4), (1.0, 3.0), (AMDAHL(0.5), POWER(0.7))),
        cw.Whittle(),
    ),
    "two-greedy": (
        naive.two(5.0, (1.25, 1.25), (1.0, 1.0), (USL(0.1, 0.01), GUSTAFSON(0.5))),
        cw.Greedy(),
    ),
    "three-whittle": (
        naive.two(5.0, (0.8, 1.6, 0.4), (1.0, 2.0, 0.5), (AMDAHL(0.3), POWER(0.6), GUSTAFSON(0.8))),
        cw.Whittle(),
    ),
    "three-priority": (
        naive.two(4.5, (0.6, 0.8, 0.3), (1.0, 2.0, 1.0), (AMDAHL(0.9), AMDAHL(1.0), POWER(0.9))),
        cw.Priority(["class1", "class2", "class0"]),
    ),
    "four-equi": (
        naive.two(
            3.5,
            (0.4, 0.5, 0.4, 0.6),
            (1.0, 2.0, 1.0, 1.5),
            FOUR[0],
        ),
        cw.Equi(),
    ),
    "four-whittle": (
        naive.two(
            4.0,
            (0.4, 0.5, 0.4, 0.6),
            (1.0, 2.0, 1.0, 1.5),
            FOUR[1],
        ),
        cw.Whittle(),
    ),
}


class Windows:
    """Independent windows of paths without tables, each begun where a long run from empty has led.

    Attributes
    ----------
    areas : ndarray, shape (windows, K)
        The job-time of each class.
    left : ndarray, shape (windows, K)
        The departures of each class.
    times : ndarray, shape (windows,)
        How long they lasted.
    """

    def __init__(
        self, system: cw.System, policy: cw.Policy, window: dict[str, Any], seed: Sequence[int], make: Any
    ) -> None:
        bound, rows = policy.on(system), []
        nobody = cw.results.State((0,) * len(system.classes))
        for rng in np.random.default_rng(seed).spawn(WINDOWS):
            before = make(system, bound, nobody, rng)
            before.run_departures([3000], None)
            walk = make(system, bound, before.finish()[0], rng)
            Window.of(window.get("departures"), window.get("time")).walk(walk, 1, None)
            rows.append((walk.areas[0], walk.moves[len(system.classes) :], walk.spans[0]))
        self.areas, self.left = (np.array([row[k] for row in rows]) for k in (0, 1))
        self.times = np.array([row[2] for row in rows])

    def differ_from(self, means: Floats, rates: Floats) -> float:
        """The p-value that mean jobs and throughput are those given; means of windows, by Student's test."""
        time = self.times[:, None]
        return min(mean_zero([*(self.areas - means * time)]), mean_zero([*(self.left - rates * time)]))


@cache
def exact_means(build: Build, name: str, factor: float) -> Floats:
    model, policy = CASES[name]
    performance = cw.evaluate(build(times_arrivals(model, factor)), policy)
    return np.array([row.mean_jobs for row in performance.classes.values()])


@pytest.mark.statistical
@EVERY_KIND
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", CASES)
def test_means_are_those_of_exact_analysis(as_system: Build, name: str, engine: str, kind: str) -> None:
    """Mean jobs and throughput of every class; false alarm 1e-6 in all.

    Negative control: the means of a system with 3 % more arrivals.
    """
    model, policy = CASES[name]
    seen = Windows(
        as_system(model),
        policy,
        window_of(engine, model, LENGTH),
        [*map(ord, name + engine)],
        KINDS[kind],
    )
    alarm = FALSE_ALARM / len(CASES) / len(ENGINES) / len(KINDS) / 2
    assert seen.differ_from(exact_means(as_system, name, 1.0), model.arrivals) > alarm
    assert mean_zero([*(seen.areas - exact_means(as_system, name, 1.03) * seen.times[:, None])]) < alarm


@pytest.mark.statistical
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", ["two-whittle", "two-greedy", "three-whittle"])
def test_means_by_values_are_those_of_exact_analysis(as_system: Build, name: str, engine: str) -> None:
    """Mean jobs and throughput of every class; false alarm 1e-6 in all.

    The values are no good and end at a few jobs, so that states beyond them are seen as well. Negative
    control: the means of a system with 5 % more arrivals under the same policy.
    """
    model = CASES[name][0]
    system, more = as_system(model), as_system(times_arrivals(model, 1.05))
    policy = BoundPolicy(system, "by values", fitted_rule(system, 7.0))
    seen = Windows(
        system, policy, window_of(engine, model, 12_000), [*map(ord, name + engine), 1], FittedChain
    )
    means, other = (
        np.array([row.mean_jobs for row in cw.evaluate(truth, policy).classes.values()])
        for truth in (system, more)
    )
    alarm = FALSE_ALARM / 3 / len(ENGINES) / 2
    assert seen.differ_from(means, model.arrivals) > alarm
    assert mean_zero([*(seen.areas - other * seen.times[:, None])]) < alarm


# --- closed forms for more classes ----------------------------------------------------------------


def chosen_walk(
    system: cw.System, policy: BoundPolicy, start: cw.results.State, rng: np.random.Generator
) -> Any:
    """What `simulate` would use, which must be a path without tables."""
    walk = first_walk(system, policy, start, rng)
    assert isinstance(walk, LevelChain)
    return walk


@pytest.mark.statistical
@pytest.mark.parametrize("engine", ENGINES)
def test_classes_that_are_alike_are_one_queue(as_system: Build, engine: str) -> None:
    """EQUI, equal curves and sizes, six classes: N is a birth-death chain, and classes are drawn at random.

    False alarm 1e-6; negative control: load 3 % higher.
    """
    shares = np.arange(1.0, 7.0) / 21.0
    model = naive.Model(3.0, tuple(naive.Job(2.1 * share, 1.0, AMDAHL(0.7)) for share in shares))

    def law_of(rate: float) -> Floats:
        return naive.birth_death(rate, lambda n: float(n * AMDAHL(0.7)(np.array(3.0 / n))))

    law, other = law_of(2.1), law_of(2.163)
    likely = np.flatnonzero(law > 0.01)
    rows: list[list[Floats]] = [[], []]
    for rng in np.random.default_rng(len(engine)).spawn(WINDOWS):
        start = rng.multinomial(rng.choice(law.size, p=law), shares).tolist()
        window = window_of(engine, model, 10_000)
        run = cw.simulate(as_system(model), cw.Equi(), rng=rng, start=start, record=True, **window)
        assert run.path is not None
        assert run.visited.shape == (6, 0)
        spent = np.bincount(run.path.counts.sum(axis=1)[:-1], np.diff(run.path.time), law.size)
        means = np.array([row.mean_jobs for row in run.classes.values()])
        for kind, probabilities in zip(rows, (law, other), strict=True):
            mean = probabilities @ np.arange(probabilities.size)
            off = [(means - mean * shares) * run.time, spent[likely] - probabilities[likely] * run.time]
            kind.append(np.concatenate(off))
    assert mean_zero(rows[0]) > FALSE_ALARM / 2
    assert mean_zero(rows[1]) < FALSE_ALARM / 2


@pytest.mark.statistical
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("policy", [cw.Whittle(), cw.Greedy()], ids=["whittle", "greedy"])
def test_perfect_speed_up_is_one_server(as_system: Build, policy: cw.Policy, engine: str) -> None:
    """p = 1, equal sizes, eight classes: M/M/1, whoever is served. False alarm 1e-6; control: load 3 % up."""
    arrivals = 4.2 * np.arange(1.0, 9.0) / 36.0
    model = naive.Model(6.0, tuple(naive.Job(float(rate), 1.0, AMDAHL(1.0)) for rate in arrivals))
    window = window_of(engine, model, LENGTH)
    seen = Windows(as_system(model), policy, window, [len(policy.name), len(engine)], chosen_walk)
    total = seen.areas.sum(axis=1)[:, None]
    assert mean_zero([*(total - 0.7 / 0.3 * seen.times[:, None])]) > FALSE_ALARM / 4
    assert mean_zero([*(total - 0.721 / 0.279 * seen.times[:, None])]) < FALSE_ALARM / 4


# --- single jobs ----------------------------------------------------------------------------------

MIXED = naive.Model(
    5.0,
    (
        naive.Job(0.8, 1.0, AMDAHL(0.6)),
        naive.Job(0.9, 2.0, POWER(0.7), 2.0),
        naive.Job(0.4, 0.8, GUSTAFSON(0.4)),
        naive.Job(0.7, 1.2, USL(0.1, 0.05)),
        naive.Job(0.8, 1.6, naive.tabulated((2.0, 1.7), (4.0, 2.5))),
    ),
)


@pytest.mark.statistical
@pytest.mark.parametrize("policy", [cw.Whittle(), cw.Greedy()], ids=["whittle", "greedy"])
def test_windows_have_the_means_of_single_jobs(as_system: Build, policy: cw.Policy) -> None:
    """Five families: job-time, length and counts at the end of short windows; false alarm 1e-6.

    Negative control: single jobs on 0.75 of the cores.
    """
    system = as_system(MIXED)
    bound = policy.on(system)
    cores = ByPrice(policy.name, system)
    start, departures, samples = (2, 0, 1, 3, 1), 25, 200
    ours = cw.replicate(system, bound, n=2000, departures=departures, rng=4, start=start).runs
    mine = np.array([[run.mean_jobs * run.time, run.time, *run.state.counts] for run in ours])

    def p_value(used: float) -> float:
        pool = naive_jobs.Pool(MIXED, lambda _, counts: used * cores(counts), 5)
        windows = [pool.run(departures=departures, start=start) for _ in range(samples)]
        theirs = np.array([[w.area, w.time, *w.counts(5)] for w in windows])
        found = stats.ttest_ind(mine, theirs, axis=0, equal_var=False)
        return float(np.min(found.pvalue)) * len(mine[0])

    assert p_value(1.0) > FALSE_ALARM / 2
    assert p_value(0.75) < FALSE_ALARM / 2


# --- statistics and records -----------------------------------------------------------------------


def six(load: float, *, cores: float = 6.0) -> cw.System:
    """Six classes of four families, two of them alike."""
    twice = cw.Amdahl(0.9)
    curves = [cw.Amdahl(0.7), cw.PowerLaw(0.6), twice, cw.Usl(0.1, 0.02), twice, cw.Gustafson(0.4)]
    sizes = [1.0, 1.5, 0.8, 2.0, 0.8, 1.2]
    return cw.System(
        cores,
        [
            cw.JobClass(f"c{i}", load * cores * size / 6.0, size, curve)
            for i, (size, curve) in enumerate(zip(sizes, curves, strict=True))
        ],
    )


POLICIES = pytest.mark.parametrize(
    "policy",
    [cw.Whittle(), cw.Greedy(), cw.Equi(), cw.Priority(["c3", "c1", "c5", "c0", "c2", "c4"])],
    ids=["whittle", "greedy", "equi", "priority"],
)


def tables(statistics: cw.Statistics) -> list[Any]:
    rows = statistics.classes
    columns = [[a.tolist() for a in (row.widths, row.departures, row.job_time)] for row in rows]
    return [(row.arrivals, row.per_octave, *column) for row, column in zip(rows, columns, strict=True)]


@pytest.mark.parametrize("load", [0.4, 0.95])
@POLICIES
def test_statistics_are_those_of_the_path(policy: cw.Policy, load: float) -> None:
    """The recorded path of the same seed has them without a grid: counts, job-time and its first moment.

    The estimates from both agree to a fiftieth of their standard error.
    """
    system = six(load)
    run = cw.simulate(system, policy, departures=6000, rng=8)
    path = cw.simulate(system, policy, departures=6000, rng=8, record=True).path
    assert path is not None
    ours, theirs = run.statistics, cw.Statistics.of(path)
    assert ours.time == pytest.approx(theirs.time, rel=1e-12)
    assert ours.time == pytest.approx(run.time, rel=1e-12)
    for row, one, other in zip(run.classes.values(), ours.classes, theirs.classes, strict=True):
        assert (one.arrivals, one.left) == (other.arrivals, other.left) == (row.arrivals, row.departures)
        assert one.departures.sum() == pytest.approx(row.departures, rel=1e-12)
        assert one.job_time.sum() == pytest.approx(row.mean_jobs * run.time, rel=1e-9)
        assert one.job_time.sum() == pytest.approx(other.job_time.sum(), rel=1e-9)
        assert one.widths @ one.job_time == pytest.approx(other.widths @ other.job_time, rel=1e-9)
        wide, broad = one.widths > 1.0, other.widths > 1.0
        if wide.all() and broad.all():
            assert one.widths @ one.departures == pytest.approx(other.widths @ other.departures, rel=1e-9)
    near, exact = cw.estimate(ours, system), cw.estimate(theirs, system)
    for name in system.names:
        assert near[name].informative == exact[name].informative
        for parameter, error in exact[name].stderrs.items():
            found, right = near[name].parameters[parameter], exact[name].parameters[parameter]
            if exact[name].informative and not exact[name].at_boundary:
                assert abs(found - right) < 0.02 * error


def test_statistics_can_be_asked_for_again() -> None:
    """The same each time, of a pickled run too; runs that share a generator keep theirs."""
    rng = np.random.default_rng(3)
    runs = [cw.simulate(six(0.7), cw.Whittle(), departures=500, rng=rng) for _ in range(2)]
    again = [pickle.loads(pickle.dumps(run)) for run in runs]
    for run, other in zip(runs, again, strict=True):
        assert tables(run.statistics) == tables(run.statistics) == tables(other.statistics)
        assert not isinstance(run.observed, cw.Statistics)
        assert tables(run.observed()) == tables(run.statistics)
        assert run.statistics.departures == 500
    assert tables(runs[0].statistics) != tables(runs[1].statistics)


@pytest.mark.statistical
def test_departures_below_one_core_are_at_the_rate_of_one_core() -> None:
    """s(z) = z: what the grid has at one core or less are departures at rate μ. False alarm 1e-6.

    Negative control: a size rate 10 % higher. EQUI, and three times as many jobs as cores.
    """
    system = six(0.97)
    run = cw.simulate(system, cw.Equi(), departures=60_000, rng=2, start=(3,) * 6)
    for job_class, table in zip(system.classes, run.statistics.classes, strict=True):
        slow = table.widths <= 1.0
        assert table.departures[table.widths == 0.0].sum() == 0.0
        left, served = table.departures[slow].sum(), float(table.widths[slow] @ table.job_time[slow])
        for rate, right in ((job_class.known_size_rate, True), (1.1 * job_class.known_size_rate, False)):
            off = (left - rate * served) / math.sqrt(rate * served)
            assert bool(abs(off) < stats.norm.isf(FALSE_ALARM / 12 / 2)) is right


@pytest.mark.parametrize("engine", ENGINES)
@POLICIES
def test_a_record_is_what_happened(policy: cw.Policy, engine: str) -> None:
    """∫N dt is the sum of the times in system; the cores are those of the policy, jobs come and go once."""
    system, start = six(0.9), (1, 0, 2, 0, 4, 1)
    window: dict[str, Any] = {"departures": 700} if engine == "departures" else {"time": 130.0}
    plain = cw.simulate(system, policy, rng=5, start=start, **window)
    run = cw.simulate(system, policy, rng=5, start=start, record=True, **window)
    path = run.path
    assert path is not None
    assert (plain.mean_jobs, plain.time, plain.events) == (run.mean_jobs, run.time, run.events)
    seen = stays(path)
    for i, row in enumerate(run.classes.values()):
        spent = [left - came for kind, came, left in seen.values() if kind == i]
        assert row.mean_jobs * run.time == pytest.approx(math.fsum(spent), rel=1e-9)
        assert row.arrivals == np.sum((path.event == cw.results.EventKind.ARRIVAL) & (path.job_class == i))
        assert row.departures == np.sum(
            (path.event == cw.results.EventKind.DEPARTURE) & (path.job_class == i)
        )
    assert np.array_equal(path.cores, policy.on(system).allocate(path.counts))
    assert run.events == path.arrivals + path.departures
    assert run.state.counts == tuple(path.counts[-1].tolist())
    assert (run.departures == 700) if engine == "departures" else (run.time == pytest.approx(130.0))
    further = cw.simulate(system, policy, rng=6, start=run.state, departures=50, record=True)
    assert further.path is not None
    assert further.path.start == path.end == run.state.time
    assert tuple(further.path.counts[np.sum(run.state.counts)].tolist()) == run.state.counts


# --- changes, replications, plants ----------------------------------------------------------------


@pytest.mark.statistical
def test_changes_are_followed() -> None:
    """Five classes alike under EQUI, p from 0.2 to 0.95 at time 4000: a birth-death chain before and after.

    False alarm 1e-6; negative control: each part against the other's mean.
    """
    at, names = 4000.0, [f"c{i}" for i in range(5)]
    before = cw.System(4.0, [cw.JobClass(name, 0.48, 1.0, cw.Amdahl(0.2)) for name in names])
    system = cw.System(4.0, before.classes, [cw.Change(at, name, cw.Amdahl(0.95)) for name in names])
    means = []
    for curve in (AMDAHL(0.2), AMDAHL(0.95)):
        speeds = {n: float(n * curve(np.array(4.0 / n))) for n in range(1, 2000)}
        law = naive.birth_death(2.4, speeds.__getitem__, terms=2000)
        means.append(float(law @ np.arange(law.size)))
    rows: list[list[Floats]] = [[], []]
    for rng in np.random.default_rng(11).spawn(WINDOWS):
        first = cw.simulate(system, cw.Equi(), time=100.0, rng=rng)
        old = cw.simulate(system, cw.Equi(), time=at - 100.0, rng=rng, start=first.state)
        warm = cw.simulate(system, cw.Equi(), time=100.0, rng=rng, start=old.state)
        new = cw.simulate(system, cw.Equi(), time=3900.0, rng=rng, start=warm.state)
        assert new.state.time == pytest.approx(2.0 * at)
        for k, run in enumerate((old, new)):
            rows[k].append(np.array([run.mean_jobs - means[k], run.mean_jobs - means[1 - k]]))
    for row in rows:
        right, wrong = np.array(row).T
        assert mean_zero([*right[:, None]]) > FALSE_ALARM / 4
        assert mean_zero([*wrong[:, None]]) < FALSE_ALARM / 4


@EVERY_KIND
@pytest.mark.parametrize("engine", ENGINES)
def test_a_run_over_a_change_is_its_parts(engine: str, kind: str) -> None:
    """Up to the change it is the same path as one that ends there; afterwards the curves are the new ones."""
    at, names = 50.0, [f"c{i}" for i in range(5)]
    old = cw.System(4.0, [cw.JobClass(name, 0.48, 1.0, cw.Amdahl(0.2)) for name in names])
    system = cw.System(4.0, old.classes, [cw.Change(at, name, cw.Amdahl(0.95)) for name in names])
    short, long = (
        KINDS[kind](
            system, cw.Equi().on(system), cw.results.State((0,) * 5), np.random.default_rng(1), record=True
        )
        for _ in range(2)
    )
    short.run_time(at, 1, None)
    if engine == "time":
        long.run_time(2.0 * at, 1, None)
    else:
        long.run_departures([300], None)
    (_, first), (_, whole) = short.finish(), long.finish()
    assert first is not None
    assert whole is not None
    before = whole.time < at
    assert np.array_equal(first.time[:-1], whole.time[before])
    assert np.array_equal(first.counts[:-1], whole.counts[before])
    assert whole.end > at
    for walk in (short, long):
        assert walk.system.changes == ()
        assert walk.system.classes[0].speedup == cw.Amdahl(0.95)


def test_replications_are_the_same_from_threads_and_processes() -> None:
    kind: dict[str, Any] = {"n": 8, "departures": 100, "percentiles": (50.0,), "rng": 5}
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as executor:
        one = cw.replicate(six(0.7), cw.Whittle(), executor=executor, **kind)
    two = cw.replicate(six(0.7), cw.Whittle(), **kind)
    assert [(run.mean_jobs, run.time, run.state) for run in one.runs] == [
        (run.mean_jobs, run.time, run.state) for run in two.runs
    ]
    assert one.classes == two.classes
    assert tables(one.statistics) == tables(two.statistics)
    assert one.statistics.departures == 8 * 100
    alone = cw.simulate(six(0.7), cw.Whittle(), departures=100, rng=np.random.default_rng(5).spawn(8)[3])
    assert one.runs[3].mean_jobs == pytest.approx(alone.mean_jobs, rel=1e-12)


@pytest.mark.parametrize("policy", [cw.Whittle(), cw.Equi()], ids=["whittle", "equi"])
def test_a_plant_of_six_classes(policy: cw.Policy) -> None:
    """Windows follow each other; it goes on from a snapshot as if it had not stopped."""
    plant, other = (cw.SimulatedPlant(six(0.7), rng=seed) for seed in (4, 5))
    seen = [plant.run(policy, 400) for _ in range(2)]
    assert [window.departures for window in seen] == [400, 400]
    assert plant.state.time == pytest.approx(sum(window.time for window in seen))
    other.restore(plant.snapshot())
    assert tables(plant.run(policy, 100)) == tables(other.run(policy, 100))


@pytest.mark.statistical
def test_learning_with_six_classes() -> None:
    """The curves are found: within six standard errors, which 1e-8 of all runs would miss."""
    system = six(0.5, cores=12.0)
    algorithm = cw.algorithm_1b(system, departures=1500, steps=4, policy=cw.Whittle())
    *_, last = cw.learn(cw.SimulatedPlant(system, rng=3), algorithm, diagnose=False)
    found = last.estimates
    for job_class in system.classes:
        estimate = found[job_class.name]
        for name, error in estimate.stderrs.items():
            assert abs(estimate.parameters[name] - getattr(job_class.speedup, name)) < 6.0 * error or (
                estimate.at_boundary
            )


def test_tables_are_used_where_they_are_small() -> None:
    """Up to three classes of not too many jobs; a policy that is no level needs them in any case."""
    rng, small = np.random.default_rng(1), six(0.5)
    three = cw.System(small.cores, small.classes[:3])
    large = cw.System(3000.0, [cw.JobClass(c.name, 900.0, 1.0, c.speedup) for c in three.classes])
    for system, policy, kind in (
        (three, cw.Whittle(), TableChain),
        (small, cw.Whittle(), LevelChain),
        (large, cw.Whittle(), LevelChain),
        (small, cw.Fixed([1.0 / 6.0] * 6), TableChain),
        (three, by_values(three), TableChain),
        (small, by_values(small), FittedChain),
    ):
        start = cw.results.State((0,) * len(system.classes))
        assert type(first_walk(system, policy.on(system), start, rng)) is kind


def test_states_are_remembered_where_they_come_back() -> None:
    """Four classes on 8 cores have some 1e5 likely states, on 256 some 1e8: a memory would only be missed."""
    for cores, kind, other in ((8.0, Remembering, Forgetful), (256.0, Forgetful, Remembering)):
        system = cw.System(cores, [cw.JobClass(name, 0.2 * cores, 1.0, cw.Amdahl(0.5)) for name in "abcd"])
        chosen, same, another = (
            engine(system, cw.Whittle().on(system), cw.results.State((0,) * 4), np.random.default_rng(1))
            for engine in (LevelChain, kind, other)
        )
        for walk in (chosen, same, another):
            walk.run_departures([500], None)
        assert np.array_equal(chosen.areas[0], same.areas[0])
        assert not np.array_equal(chosen.areas[0], another.areas[0])


@pytest.mark.parametrize("engine", KINDS.values())
def test_samples_are_the_states_at_their_times(engine: type[LevelChain]) -> None:
    """As read off the recorded path, one time after the other."""
    system, times = six(0.5), 40
    start = cw.results.State((0,) * len(system.classes))
    walk = engine(system, cw.Whittle().on(system), start, np.random.default_rng(4), record=True)
    sampled = np.concatenate([walk.sampled(3.0, times), walk.sampled(3.0, times)], axis=1)
    path = walk.finish()[1]
    assert path is not None
    for k, counts in enumerate(sampled.T, start=1):
        upto = np.flatnonzero(path.time <= 3.0 * k / times)[-1]
        assert np.array_equal(path.counts[upto], counts)


# --- fitted values --------------------------------------------------------------------------------


def by_values(system: cw.System, limit: float = 9.0) -> BoundPolicy:
    return BoundPolicy(system, "by values", fitted_rule(system, limit))


@pytest.mark.parametrize("limit", [2.0, 9.0])
def test_a_path_by_values_holds_the_cores_of_its_rule(limit: float) -> None:
    """Seen in the tally of widths: job-time, its first moment and departures as of the recorded path.

    The path has its cores from the rule, for all states at once; the walk has its own, one by one.
    """
    system = six(0.9)
    policy = by_values(system, limit)
    run = cw.simulate(system, policy, departures=3000, rng=8)
    path = cw.simulate(system, policy, departures=3000, rng=8, record=True).path
    assert path is not None
    assert np.array_equal(path.cores, policy.allocate(path.counts))
    for row, one, other in zip(
        run.classes.values(), run.statistics.classes, cw.Statistics.of(path).classes, strict=True
    ):
        assert (one.arrivals, one.left) == (other.arrivals, other.left) == (row.arrivals, row.departures)
        assert one.job_time.sum() == pytest.approx(row.mean_jobs * run.time, rel=1e-9)
        assert one.widths @ one.job_time == pytest.approx(other.widths @ other.job_time, rel=1e-9)
        squares = [float(np.maximum(table.widths, 1.0) ** 2 @ table.job_time) for table in (one, other)]
        assert squares[0] == pytest.approx(squares[1], rel=2e-5)
        left = [float(np.maximum(table.widths, 1.0) @ table.departures) for table in (one, other)]
        assert left[0] == pytest.approx(left[1], rel=1e-9)


@pytest.mark.parametrize("limit", [2.0, 9.0])
def test_a_rule_that_is_asked_gives_the_path_of_the_kernel(limit: float) -> None:
    """However often it is asked: never, for the first states, for all of them; curves change on the way."""
    first = six(0.8)
    classes = [*first.classes[:3], cw.JobClass("own", 0.2, 1.0, Logarithmic(0.7))]
    system = cw.System(first.cores, classes, [cw.Change(30.0, "own", cw.PowerLaw(0.3))])
    policy, paths = by_values(system, limit), []
    for times in (0, 7, 10**9):
        kind = type("Asking", (FittedChain,), {"patience": times})
        start, rng = cw.results.State((1, 0, 2, 0)), np.random.default_rng(6)
        walk = kind(system, policy, start, rng, record=True, tally=True)
        walk.run_time(90.0, 3, None)
        paths.append((walk.finish()[1], walk.areas, walk.statistics()))
        assert walk._asks is (times > 10)
    (path, areas, statistics), *others = paths
    assert path.departures > 100
    for other, their_areas, their_statistics in others:
        assert np.array_equal(path.counts, other.counts)
        assert np.allclose(path.time, other.time, rtol=1e-7)
        assert np.allclose(areas, their_areas, rtol=1e-7)
        for one, two in zip(statistics.classes, their_statistics.classes, strict=True):
            assert float(one.widths @ one.job_time) == pytest.approx(
                float(two.widths @ two.job_time), rel=1e-7
            )


@pytest.mark.statistical
@pytest.mark.parametrize("engine", ENGINES)
def test_perfect_speed_up_is_one_server_by_values(as_system: Build, engine: str) -> None:
    """p = 1, equal sizes, eight classes: M/M/1 as long as no state is beyond what was seen.

    False alarm 1e-6; negative control: a load 3 % higher.
    """
    arrivals = 4.2 * np.arange(1.0, 9.0) / 36.0
    model = naive.Model(6.0, tuple(naive.Job(float(rate), 1.0, AMDAHL(1.0)) for rate in arrivals))
    system = as_system(model)
    window = window_of(engine, model, 8000)
    seen = Windows(system, by_values(system, 1e6), window, [3, len(engine)], first_walk)
    total = seen.areas.sum(axis=1)[:, None]
    assert mean_zero([*(total - 0.7 / 0.3 * seen.times[:, None])]) > FALSE_ALARM / 2
    assert mean_zero([*(total - 0.721 / 0.279 * seen.times[:, None])]) < FALSE_ALARM / 2


def test_changes_replications_and_plants_by_values() -> None:
    """The truth may differ from what the policy was made for, and change; threads, windows, snapshots."""
    made_for = six(0.7)
    policy = by_values(made_for)
    truth = made_for.with_curves({"c0": cw.Amdahl(0.1)})
    changing = cw.System(truth.cores, truth.classes, [cw.Change(20.0, "c0", cw.Amdahl(0.99))])
    walk = first_walk(changing, policy, cw.results.State((0,) * 6), np.random.default_rng(1))
    assert isinstance(walk, FittedChain)
    walk.run_time(40.0, 2, None)
    assert walk.system.classes[0].speedup == cw.Amdahl(0.99)
    assert walk.spans == pytest.approx([20.0, 20.0])
    kind: dict[str, Any] = {"n": 6, "departures": 100, "rng": 5}
    one, two = (cw.replicate(truth, policy, **kind) for _ in range(2))
    assert [run.mean_jobs for run in one.runs] == [run.mean_jobs for run in two.runs]
    assert one.statistics.departures == 600
    plant, other = (cw.SimulatedPlant(truth, rng=seed) for seed in (4, 5))
    assert plant.run(policy, 300).departures == 300
    other.restore(plant.snapshot())
    assert tables(plant.run(policy, 100)) == tables(other.run(policy, 100))
