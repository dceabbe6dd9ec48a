"""Slow twins of what corewise computes, written from the definitions and from nothing else.

Only NumPy and SciPy are imported. Nothing here is clever: states are listed, rates are written down as in the
paper's (3.1) and (4.1)-(4.4), chains are solved by sparse LU, and the best split of the cores is searched for
without derivatives. Where a rule needs a price (greedy, Whittle) it is bisected.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import splu

Floats = NDArray[np.float64]

Counts = NDArray[np.int64]
Split = Callable[["Model", Counts, Floats], Floats]


# --- the model ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Curve:
    """A speed-up curve: `family` and its `parameters` (for `tabulated`: z1, s1, z2, s2, …)."""

    family: str
    parameters: tuple[float, ...]

    def __call__(self, z: Floats) -> Floats:
        """s(z), with s(z) = z up to one core."""
        wide = np.maximum(np.asarray(z, dtype=float), 1.0)
        return np.where(np.asarray(z) < 1.0, z, self._wide(wide))

    def slope(self, z: Floats) -> Floats:
        """The derivative of s to the right of z, from the formulas."""
        wide = np.maximum(np.asarray(z, dtype=float), 1.0)
        return np.where(np.asarray(z) < 1.0, 1.0, self._wide_slope(wide))

    def _wide(self, z: Floats) -> Floats:
        a = self.parameters
        if self.family == "amdahl":
            return np.asarray(1.0 / (1.0 - a[0] + a[0] / z))
        if self.family == "power":
            return np.asarray(z ** a[0])
        if self.family == "gustafson":
            return np.asarray(1.0 - a[0] + a[0] * z)
        if self.family == "usl":
            held = np.minimum(z, usl_peak(*a))
            return np.asarray(held / (1.0 + a[0] * (held - 1.0) + a[1] * held * (held - 1.0)))
        return majorant(a, z)

    def _wide_slope(self, z: Floats) -> Floats:
        a = self.parameters
        if self.family == "amdahl":
            return np.asarray(a[0] / (a[0] + (1.0 - a[0]) * z) ** 2)
        if self.family == "power":
            return np.asarray(a[0] * z ** (a[0] - 1.0))
        if self.family == "gustafson":
            return np.full_like(z, a[0])
        if self.family == "usl":
            below = 1.0 - a[0] + (a[0] - a[1]) * z + a[1] * z**2
            return np.where(z < usl_peak(*a), (1.0 - a[0] - a[1] * z**2) / below**2, 0.0)
        raise NotImplementedError(self.family)


def usl_peak(sigma: float, kappa: float) -> float:
    """Where z/(1 + sigma (z-1) + kappa z (z-1)) is largest, never below one core."""
    return max(1.0, math.sqrt((1.0 - sigma) / kappa)) if kappa > 0 else math.inf


def majorant(flat: Sequence[float], z: Floats) -> Floats:
    """Least concave nondecreasing majorant of the points and (1, 1): the best of all chords over z."""
    points = [(1.0, 1.0)] + [(a, min(a, b)) for a, b in zip(flat[::2], flat[1::2], strict=True)]
    best = np.max([np.where(z >= a, b, 0.0) for a, b in points], axis=0)
    for (a, b), (d, e) in itertools.permutations(points, 2):
        if d > a:
            chord = b + (e - b) * (z - a) / (d - a)
            best = np.maximum(best, np.where((z >= a) & (z <= d), chord, 0.0))
    return np.asarray(best)


def amdahl(p: float) -> Curve:
    return Curve("amdahl", (p,))


def power(p: float) -> Curve:
    return Curve("power", (p,))


def gustafson(p: float) -> Curve:
    return Curve("gustafson", (p,))


def usl(sigma: float, kappa: float) -> Curve:
    return Curve("usl", (sigma, kappa))


def tabulated(*points: tuple[float, float]) -> Curve:
    return Curve("tabulated", tuple(value for point in points for value in point))


@dataclass(frozen=True)
class Job:
    """One class of jobs; its name is its position (see `Model.names`)."""

    arrival: float
    size: float
    curve: Curve
    weight: float = 1.0


@dataclass(frozen=True)
class Model:
    """Cores and classes of jobs."""

    cores: float
    jobs: tuple[Job, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"class{i}" for i in range(len(self.jobs)))

    @property
    def arrivals(self) -> Floats:
        return np.array([job.arrival for job in self.jobs])

    @property
    def sizes(self) -> Floats:
        return np.array([job.size for job in self.jobs])

    @property
    def weights(self) -> Floats:
        return np.array([job.weight for job in self.jobs])

    @property
    def load(self) -> float:
        return float(np.sum(self.arrivals / self.sizes) / self.cores)


def two(cores: float, arrivals: Sequence[float], sizes: Sequence[float], curves: Sequence[Curve]) -> Model:
    """A model from one list per column."""
    return Model(cores, tuple(Job(a, m, s) for a, m, s in zip(arrivals, sizes, curves, strict=True)))


def box(model: Model, capacity: int | Sequence[int]) -> tuple[int, ...]:
    return (capacity,) * len(model.jobs) if isinstance(capacity, int) else tuple(capacity)


def states(capacity: Sequence[int]) -> Counts:
    """All counts in the box, the last class fastest."""
    axes = np.meshgrid(*(np.arange(n + 1) for n in capacity), indexing="ij")
    return np.stack([axis.ravel() for axis in axes], axis=-1).astype(np.int64)


def departures(model: Model, counts: Counts, cores: Floats) -> Floats:
    """(3.1): n mu s(x / n) per class and state."""
    rates = np.zeros(counts.shape)
    for i, job in enumerate(model.jobs):
        n = counts[:, i]
        some = n > 0
        rates[some, i] = n[some] * job.size * job.curve(cores[some, i] / n[some])
    return rates


# --- an exact chain on a box ----------------------------------------------------------------------


@dataclass(frozen=True)
class Result:
    """What a policy does on a box with blocking. `values` are relative to the reference state."""

    jobs: Floats
    cost: float
    throughput: Floats
    used: float
    edge: float
    distribution: Floats
    values: Floats

    @property
    def mean_jobs(self) -> float:
        return float(self.jobs.sum())


def generator(model: Model, capacity: Sequence[int], counts: Counts, cores: Floats) -> sparse.csc_matrix:
    """(4.1)-(4.4), arrivals blocked at the edge of the box."""
    size, here = len(counts), np.arange(len(counts))
    steps = [math.prod(n + 1 for n in capacity[i + 1 :]) for i in range(len(capacity))]
    rates = departures(model, counts, cores)
    rows: list[Counts] = []
    columns: list[Counts] = []
    entries: list[Floats] = []
    for i, step in enumerate(steps):
        for sign, allowed, rate in (
            (1, counts[:, i] < capacity[i], np.full(size, model.jobs[i].arrival)),
            (-1, counts[:, i] > 0, rates[:, i]),
        ):
            go = here[allowed]
            rows += [go, go]
            columns += [go + sign * step, go]
            entries += [rate[allowed], -rate[allowed]]
    flat = (np.concatenate(entries), (np.concatenate(rows), np.concatenate(columns)))
    return sparse.csc_matrix(sparse.coo_matrix(flat, shape=(size, size)))


def evaluate(model: Model, capacity: int | Sequence[int], cores: Floats) -> Result:
    """Renewal reward between visits to a likely state: cost of a cycle over its length, by sparse LU."""
    capacity = box(model, capacity)
    counts = states(capacity)
    Q = generator(model, capacity, counts, cores)
    cost = counts @ model.weights
    result = _cycles(Q, cost, 0)
    if result[1][0] < 1e-2:  # a rare reference state costs digits
        result = _cycles(Q, cost, int(np.argmax(result[1])))
    average, stationary, values = result
    at_edge = (counts == np.array(capacity)).any(axis=1)
    return Result(
        jobs=stationary @ counts,
        cost=average,
        throughput=stationary @ departures(model, counts, cores),
        used=float(stationary @ cores.sum(axis=1)) / model.cores,
        edge=float(stationary[at_edge].sum()),
        distribution=stationary,
        values=values,
    )


def _cycles(Q: sparse.csc_matrix, cost: Floats, reference: int) -> tuple[float, Floats, Floats]:
    rest = np.delete(np.arange(Q.shape[0]), reference)
    row = Q[[reference], :].toarray().ravel()
    lu: Any = splu(
        sparse.csc_matrix(Q[rest, :][:, rest]),
        permc_spec="MMD_AT_PLUS_A",
        diag_pivot_thresh=0.0,
        options={"SymmetricMode": True},
    )
    spent, time = lu.solve(-cost[rest]), lu.solve(-np.ones(len(rest)))
    average = (cost[reference] + row[rest] @ spent) / (1.0 + row[rest] @ time)
    values = np.zeros(Q.shape[0])
    values[rest] = spent - average * time
    stationary = np.zeros(Q.shape[0])
    stationary[rest] = lu.solve(-row[rest], "T")
    stationary[reference] = 1.0
    return float(average), stationary / stationary.sum(), values


# --- policies -------------------------------------------------------------------------------------


def equi(model: Model, counts: Counts) -> Floats:
    """The same number of cores for every job."""
    return np.asarray(model.cores * counts / np.maximum(counts.sum(axis=1), 1)[:, None])


def fixed(model: Model, counts: Counts, shares: Sequence[float]) -> Floats:
    """Given shares; those of absent classes go to the others in proportion."""
    held = np.where(counts > 0, np.array(shares), 0.0)
    total = held.sum(axis=1, keepdims=True)
    return np.asarray(model.cores * held / np.where(total > 0, total, 1.0))


def priority(model: Model, counts: Counts, order: Sequence[int]) -> Floats:
    """All cores to the first class present."""
    cores = np.zeros(counts.shape)
    for state, row in zip(counts, cores, strict=True):
        for i in order:
            if state[i] > 0:
                row[i] = model.cores
                break
    return cores


def greedy(model: Model, counts: Counts) -> Floats:
    """GREEDY*: sum of h n mu s(x/n) is largest; where several splits do so, most to the smallest s(c).

    With equal weights it is the largest rate of departures, the GREEDY* of Berg, Dorsman and Harchol-Balter.
    """
    ranks = sorted(range(len(model.jobs)), key=lambda i: float(model.jobs[i].curve(np.array(model.cores))))

    def gain(job: Job) -> Callable[[Floats], Floats]:
        return lambda z: job.weight * job.size * job.curve.slope(z)

    return at_price(model, counts, [gain(job) for job in model.jobs], ranks)


def at_price(
    model: Model, counts: Counts, marginals: Sequence[Callable[[Floats], Floats]], ranks: Sequence[int]
) -> Floats:
    """Cores at the price that clears the market, bisected; what is left at that price in the order `ranks`.

    `marginals[i](z)` is nonincreasing in z: what a job of class i gains from a little more than z cores.
    """
    lo, hi = np.full(len(counts), 1e-100), np.full(len(counts), 1e100)
    for _ in range(1200):
        middle = np.where(hi / lo > 4.0, np.sqrt(lo) * np.sqrt(hi), 0.5 * (lo + hi))
        over = _demand(model, counts, marginals, middle).sum(axis=1) > model.cores
        lo, hi = np.where(over, middle, lo), np.where(over, hi, middle)
        if np.all(hi - lo <= 4e-16 * hi):
            break
    least, most = _demand(model, counts, marginals, hi), _demand(model, counts, marginals, lo)
    cores = least
    for i in ranks:
        unallocated = model.cores - cores.sum(axis=1)
        cores[:, i] += np.clip(unallocated, 0.0, most[:, i] - cores[:, i])
    idle = np.where(counts.sum(axis=1) > 0, model.cores - cores.sum(axis=1), 0.0)
    holder = np.argmax(counts > 0, axis=1)  # cores that nobody gains from: to anyone present
    cores[np.arange(len(counts)), holder] += idle
    return cores


def _demand(
    model: Model, counts: Counts, marginals: Sequence[Callable[[Floats], Floats]], price: Floats
) -> Floats:
    cores = np.zeros(counts.shape)
    for i, marginal in enumerate(marginals):
        lo, hi = np.zeros(len(counts)), np.full(len(counts), float(model.cores))
        for _ in range(60):
            middle = 0.5 * (lo + hi)
            wants = marginal(middle) > price
            lo, hi = np.where(wants, middle, lo), np.where(wants, hi, middle)
        cores[:, i] = counts[:, i] * hi
    return cores


def whittle(model: Model, counts: Counts) -> Floats:
    """One core a job, then one price for all: W(z) = h s'(z) / (s(z) - z s'(z)) at equal levels.

    With no core to spare: one core each, largest h mu first, then the least parallel.
    """
    c, K = model.cores, len(model.jobs)
    worth = [job.weight * job.size for job in model.jobs]
    at_all = [float(job.curve(np.array(c))) for job in model.jobs]
    ranks = sorted(range(K), key=lambda i: (-worth[i], at_all[i]))

    def index(i: int) -> Callable[[Floats], Floats]:
        job = model.jobs[i]

        def value(z: Floats) -> Floats:
            slope = job.curve.slope(np.maximum(z, 1.0))
            kept = job.curve(np.maximum(z, 1.0)) - np.maximum(z, 1.0) * slope
            return np.where(z < 1.0, 1e80, job.weight * slope / np.maximum(kept, 1e-75))

        return value

    cores = np.zeros(counts.shape)
    total = counts.sum(axis=1)
    few = (total > 0) & (total < c)
    cores[few] = at_price(model, counts[few], [index(i) for i in range(K)], ranks)
    unallocated = np.full(len(counts), float(c))
    many = total >= c
    for i in ranks:
        given = np.where(many, np.minimum(unallocated, counts[:, i]), 0.0)
        cores[:, i] += given
        unallocated -= given
    return cores


# --- the best policy ------------------------------------------------------------------------------


def searched_split(model: Model, counts: Counts, gains: Floats) -> Floats:
    """max of sum_i gain_i n_i mu_i s_i(x_i/n_i), sum x_i = c: golden section on pairs of classes.

    A split no pair can improve is optimal: the terms are concave and separable, so pairwise overlapping
    intervals of marginals overlap all together (Helly's theorem on the line).
    """
    x = equi(model, counts)
    pairs = list(itertools.combinations(range(len(model.jobs)), 2))
    for _ in range(300):
        before = _worth(model, counts, gains, x).sum(axis=1)
        for i, j in pairs:
            both = np.flatnonzero((counts[:, i] > 0) & (counts[:, j] > 0))
            if len(both):
                x[both] = _exchange(model, counts[both], gains[both], x[both], i, j)
        after = _worth(model, counts, gains, x).sum(axis=1)
        if len(pairs) < 2 or np.all(after - before <= 1e-15 * (1.0 + np.abs(after))):
            break
    return x


def _worth(model: Model, counts: Counts, gains: Floats, cores: Floats) -> Floats:
    return np.asarray(gains * departures(model, counts, cores))


def _exchange(model: Model, counts: Counts, gains: Floats, x: Floats, i: int, j: int) -> Floats:
    total = x[:, i] + x[:, j]
    n, m = counts[:, i], counts[:, j]
    a, b = model.jobs[i], model.jobs[j]

    def value(first: Floats) -> Floats:
        return np.asarray(
            gains[:, i] * n * a.size * a.curve(first / n)
            + gains[:, j] * m * b.size * b.curve((total - first) / m)
        )

    lo, hi, ratio = np.zeros(len(x)), total.copy(), (math.sqrt(5.0) - 1.0) / 2.0
    for _ in range(75):
        lower, upper = hi - ratio * (hi - lo), lo + ratio * (hi - lo)
        up = value(upper) >= value(lower)
        lo, hi = np.where(up, lower, lo), np.where(up, hi, upper)
    best, score = x[:, i].copy(), value(x[:, i])
    for other in (0.5 * (lo + hi), np.minimum(n, total), np.maximum(total - m, 0.0), 0.0 * total, total):
        better = value(other) > score
        best, score = np.where(better, other, best), np.where(better, value(other), score)
    y = x.copy()
    y[:, i], y[:, j] = best, total - best
    return y


def whole_split(model: Model, counts: Counts, gains: Floats) -> Floats:
    """The same maximum over whole numbers of cores per class, by trying every split."""
    K, c = len(model.jobs), round(model.cores)
    best, score = np.zeros(counts.shape), np.full(len(counts), -np.inf)
    for head in itertools.product(range(c + 1), repeat=K - 1):
        if sum(head) > c:
            continue
        cores = np.broadcast_to(np.array([*head, c - sum(head)], dtype=float), counts.shape)
        allowed = ((counts > 0) | (cores == 0)).all(axis=1)
        value = _worth(model, counts, gains, cores).sum(axis=1)
        better = allowed & (value > score + 1e-13 * (1.0 + np.abs(value)))
        best, score = np.where(better[:, None], cores, best), np.where(better, value, score)
    return best


def differences(capacity: Sequence[int], values: Floats) -> Floats:
    """V(n) - V(n - e_i) per state and class, 0 where n_i = 0."""
    grid = values.reshape([n + 1 for n in capacity])
    gains = [np.diff(grid, axis=i, prepend=np.take(grid, [0], axis=i)) for i in range(len(capacity))]
    return np.stack([gain.ravel() for gain in gains], axis=-1)


def bracket(
    model: Model, capacity: int | Sequence[int], values: Floats, split: Split
) -> tuple[float, float, Floats]:
    """Smallest and largest cost + min_a Q_a V, between which the optimal cost lies; and the argmin."""
    capacity = box(model, capacity)
    counts = states(capacity)
    gains = differences(capacity, values)
    cores = split(model, counts, gains)
    change = -_worth(model, counts, gains, cores).sum(axis=1)
    grid = values.reshape([n + 1 for n in capacity])
    for i, job in enumerate(model.jobs):
        up = np.diff(grid, axis=i, append=np.take(grid, [-1], axis=i))
        change += job.arrival * up.ravel()
    total = counts @ model.weights + change
    return float(total.min()), float(total.max()), cores


def optimum(
    model: Model, capacity: int | Sequence[int], split: Split = searched_split, rounds: int = 300
) -> tuple[Result, Floats]:
    """Policy iteration from EQUI; ends when the improvement step proves that nothing is left to gain.

    For moderate boxes: where blocking pays, it does so at the far corner first, and each round carries the
    news by one state.
    """
    capacity = box(model, capacity)
    cores = equi(model, states(capacity))
    if split is whole_split:
        cores = whole_split(model, states(capacity), np.ones(cores.shape))
    for _ in range(rounds):
        result = evaluate(model, capacity, cores)
        low, high, cores_next = bracket(model, capacity, result.values, split)
        if high - low <= 1e-11 * (1.0 + np.abs(result.values).max()):
            return result, cores
        cores = cores_next
    raise AssertionError(f"the naive policy iteration did not end: {low}, {result.cost}, {high}")


# --- closed forms ---------------------------------------------------------------------------------


def birth_death(arrival: float, death: Callable[[int], float], terms: int = 200_000) -> Floats:
    """Stationary law of a birth-death chain: the product form, in logarithms."""
    logs = [0.0]
    for n in range(1, terms):
        logs.append(logs[-1] + math.log(arrival) - math.log(death(n)))
        if logs[-1] < max(logs[0], -1e9) - 800.0 and logs[-1] < logs[-2]:
            break
    law = np.exp(np.array(logs) - max(logs))
    return np.asarray(law / law.sum())


def erlang_c(cores: int, load: float) -> float:
    """Mean number in M/M/c with `load` = lambda/(c mu), by Erlang's C formula."""
    offered = cores * load
    terms = [offered**k / math.factorial(k) for k in range(cores)]
    last = offered**cores / math.factorial(cores) / (1.0 - load)
    waits = last / (sum(terms) + last)
    return offered + waits * load / (1.0 - load)


def fluid_bound(model: Model) -> float:
    """min of sum h rho / s(k), sum rho k / s(k) <= c, 1 <= k <= c, for Amdahl curves: one price, bisected."""
    rho = model.arrivals / model.sizes
    p = np.array([job.curve.parameters[0] for job in model.jobs])

    def widths(price: float) -> Floats:
        squares = model.weights * p / np.maximum((1.0 - p) * price, 1e-300)
        return np.asarray(np.clip(np.sqrt(squares), 1.0, model.cores))

    lo, hi = 1e-200, 1e200
    for _ in range(3000):
        middle = math.sqrt(lo) * math.sqrt(hi)
        k = widths(middle)
        lo, hi = (middle, hi) if np.sum(rho * ((1.0 - p) * k + p)) > model.cores else (lo, middle)
    k = widths(hi)
    return float(np.sum(model.weights * rho * (1.0 - p + p / k)))
