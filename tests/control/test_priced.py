"""The price rule: its sweeps beside a twin written from the equations, and its limits."""

from __future__ import annotations

import numpy as np
import pytest

import corewise as cw
from corewise.control.priced._kernels import free_prices, sweep
from corewise.control.priced.priced import Priced, solve_priced
from corewise.control.priced.tables import price_tables
from corewise.policies.moving.held import Held
from corewise.policies.moving.rule import Widths
from tests.helpers.held_chain import HeldChain

CORES, CAPACITY = 3, (2, 3)


def system(pause: float = 0.2, *, cores: int = CORES, load: float = 0.5, **given: object) -> cw.System:
    rates = [load * cores * 0.5, load * cores * 0.5 * 2.0]
    one = cw.JobClass("one", rates[0], 1.0, cw.Amdahl(0.9), resize_pause=pause, **given)  # type: ignore[arg-type]
    return cw.System(cores, [one, cw.JobClass("two", rates[1], 2.0, cw.Amdahl(0.3), resize_pause=pause)])


def naive_prices(one: cw.System, values: np.ndarray, held: np.ndarray) -> tuple[dict, dict]:  # type: ignore[type-arg]
    """Price of a core and departure rates, from the widths of single jobs."""
    price, leaving = {}, {}
    for n in np.ndindex(values.shape):
        offers_last, offers_more = [], [0.0]
        for i, known in enumerate(one.classes):
            leaving[n, i] = 0.0
            if n[i] == 0:
                continue
            before = list(n)
            before[i] -= 1
            worth = known.known_size_rate * (values[n] - values[tuple(before)])
            x = int(held[(i, *n)])
            widths = [x // n[i] + (k < x % n[i]) for k in range(n[i])]
            for u in widths:
                rate = [float(known.speedup.rate(float(v))) for v in range(CORES + 2)]
                leaving[n, i] += known.known_size_rate * rate[u]
                if u:
                    offers_last.append(worth * (rate[u] - rate[u - 1]))
                if u < CORES:
                    offers_more.append(worth * (rate[u + 1] - rate[u]))
        price[n] = (min(offers_last) + max(offers_more)) / 2 if offers_last else max(offers_more)
    return price, leaving


def naive_costs(one: cw.System, i: int, values: np.ndarray, held: np.ndarray) -> dict:  # type: ignore[type-arg]
    """Costs-to-go of a class-i job by plain iteration of the equations of `control.priced.tables`."""
    price, leaving = naive_prices(one, values, held)
    known, size_rate = one.classes[i], one.classes[i].known_size_rate
    speed = [float(known.speedup.rate(float(u))) for u in range(CORES + 1)]
    states = [n for n in np.ndindex(values.shape) if n[i] > 0]
    running = {(n, u): 0.0 for n in states for u in range(CORES + 1)}
    paused = {(n, u): 0.0 for n in states for u in range(1, CORES + 1)}
    waiting = dict.fromkeys(states, 0.0)

    def neighbours(n: tuple[int, ...]):  # type: ignore[no-untyped-def]
        for k, other in enumerate(one.classes):
            up, down = list(n), list(n)
            up[k] = min(n[k] + 1, values.shape[k] - 1)
            down[k] = n[k] - 1
            yield tuple(up), other.arrival_rate
            left = leaving[n, k] * ((n[k] - 1) / n[k] if k == i else 1.0) if n[k] else 0.0
            if left > 0.0:
                yield tuple(down), left

    for _ in range(400):
        least = {n: min(paused[n, u] for u in range(1, CORES + 1)) for n in states}
        best = {n: min(running[n, u] for u in range(1, CORES + 1)) for n in states}
        next_running, next_paused, next_waiting = {}, {}, {}
        for n in states:
            before = list(n)
            before[i] -= 1
            worth = size_rate * (values[n] - values[tuple(before)])
            most = max(worth * speed[u] - price[n] * u for u in range(CORES + 1))
            total = sum(rate for _, rate in neighbours(n))
            for u in range(CORES + 1):
                regret = most - worth * speed[u] + price[n] * u
                ahead = sum(rate * min(running[m, u], least[m]) for m, rate in neighbours(n))
                next_running[n, u] = (regret + ahead) / (total + size_rate * speed[u])
                if u:
                    ahead = sum(rate * min(paused[m, u], least[m]) for m, rate in neighbours(n))
                    ahead += min(running[n, u], least[n]) / known.resize_pause
                    regret += worth * speed[u]
                    next_paused[n, u] = (regret + ahead) / (total + 1.0 / known.resize_pause)
            ahead = sum(rate * min(waiting[m], best[m]) for m, rate in neighbours(n))
            next_waiting[n] = (most + ahead) / total
        running, paused, waiting = next_running, next_paused, next_waiting
    return {"running": running, "paused": paused, "waiting": waiting}


def test_sweeps_agree_with_their_twin() -> None:
    one = system()
    values = np.cumsum(np.ones((3, 4)), axis=0) ** 1.3 + 0.7 * np.cumsum(np.ones((3, 4)), axis=1) ** 1.5
    held = np.zeros((2, 3, 4), dtype=np.int64)
    for a, b in np.ndindex(3, 4):
        held[1, a, b] = min(b, CORES) if a else CORES * (b > 0)
        held[0, a, b] = CORES - held[1, a, b] if a else 0
    counts = np.indices((3, 4)).reshape(2, -1)
    speeds = np.stack([k.speedup.rate(np.arange(CORES + 1.0)) for k in one.classes])
    work = one.size_rates[:, None] * speeds
    steps = np.zeros((2, 12))
    steps[0, 4:] = values.ravel()[4:] - values.ravel()[:-4]
    steps[1] = np.where(counts[1] > 0, values.ravel() - np.roll(values.ravel(), 1), 0.0)
    price, leaving = np.empty(12), np.empty((2, 12))
    free_prices(steps, counts, held.reshape(2, -1), work, price, leaving)
    for i in (0, 1):
        expected = naive_costs(one, i, values, held)
        tables = (np.zeros((12, 4)), np.zeros((12, 4)), np.zeros(12), np.zeros(12), np.zeros(12))
        rates = (one.arrival_rates, np.full(2, 0.2), work)
        box = (np.array([2, 3]), np.array([4, 1]))
        for k in range(300):
            change = sweep(i, rates, np.arange(4), steps[i], price, leaving, counts, box, tables, k % 2 == 1)
        assert change < 1e-12
        for (n, u), value in expected["running"].items():
            assert tables[0][4 * n[0] + n[1], u] == pytest.approx(value, rel=1e-6, abs=1e-9)
        for (n, u), value in expected["paused"].items():
            assert tables[1][4 * n[0] + n[1], u] == pytest.approx(value, rel=1e-6, abs=1e-9)
        for n, value in expected["waiting"].items():
            assert tables[2][4 * n[0] + n[1]] == pytest.approx(value, rel=1e-6, abs=1e-9)


def test_limits_are_kept_in_the_tables() -> None:
    one = system(min_cores=2, max_cores=2)
    tables = price_tables(one, cw.solve(one, whole_cores=True))
    assert np.all(np.isinf(tables.running[0][:, [1, 3]]))
    assert np.all(np.isfinite(tables.running[0][:, [0, 2]]))
    assert np.all(np.isfinite(tables.running[1]))


@pytest.mark.statistical
def test_without_a_pause_it_is_the_optimum_in_whole_cores() -> None:
    """Within four standard errors of the exact optimum (false alarm 1e-4); EQUI is not."""
    one = system(0.0, cores=6, load=0.6)
    exact = cw.solve(one, whole_cores=True).mean_jobs
    run = cw.simulate(one, "priced", moving_costs=True, departures=100_000, rng=3)
    error = (run.interval[1] - run.interval[0]) / 4.2
    assert abs(run.mean_jobs - exact) < 4.0 * error
    equi = cw.simulate(one, "equi", moving_costs=True, departures=100_000, rng=3)
    assert abs(equi.mean_jobs - exact) > 4.0 * error


def test_a_long_pause_is_never_paid() -> None:
    run = cw.simulate(system(5.0, cores=6), Priced(), moving_costs=True, departures=20_000, rng=1)
    assert run.resizes_per_event < 0.001


def test_many_classes_have_the_rule_without_tables() -> None:
    classes = [cw.JobClass(f"c{k}", 0.3, 1.0, cw.Amdahl(0.1 * k), resize_pause=0.1) for k in range(1, 9)]
    bound = Priced().on(cw.System(12, classes))
    own = bound.decision.part(Widths)
    assert own is not None
    assert own.rule.kind == "steady"


def test_evaluate_takes_it_for_free_moves() -> None:
    one = system(0.3)
    exact = cw.solve(one, whole_cores=True)
    assert cw.evaluate(one, "priced").mean_jobs == pytest.approx(exact.mean_jobs, rel=1e-6)
    assert solve_priced(one).name == "priced"


@pytest.mark.parametrize("pause", [0.02, 0.3])
def test_it_is_near_the_exact_optimum(pause: float) -> None:
    """Beside a process with what every job holds in its state; held widths, the control, are far from it."""
    one = system(pause, cores=3, load=0.4)
    chain = HeldChain(one, 6)
    best = chain.optimum(cw.solve(one, whole_cores=True).mean_jobs, 1e-4)
    cost = chain.cost(Priced().on(one), best, 1e-4)
    held = chain.cost(Held().on(one), best, 1e-4)
    assert best * (1 - 1e-3) <= cost <= 1.03 * best
    assert held > 1.1 * best


def test_the_process_with_held_widths_is_that_of_free_moves_for_a_pause_of_nothing() -> None:
    """A pause of 1e-6 costs nothing to speak of: the optimum in whole cores, on the same bounded room."""
    one = system(1e-6, cores=2, load=0.3)
    chain = HeldChain(one, 9)
    free = cw.solve(one, whole_cores=True).mean_jobs
    assert chain.optimum(free, 1e-5) == pytest.approx(free, rel=2e-3)


def test_an_idle_core_has_no_price() -> None:
    """Two jobs that can use 2 cores each on 6: the last core given was worth something, one more is not."""
    speeds = np.array([[0.0, 1.0, 1.8, 1.8, 1.8, 1.8, 1.8]])
    price, leaving = np.empty(2), np.empty((1, 2))
    counts, cores = np.array([[2, 4]]), np.array([[4, 6]])
    free_prices(np.ones((1, 2)), counts, cores, speeds, price, leaving)
    assert price.tolist() == [0.0, pytest.approx(0.5 * (0.8 + 0.8))]
    assert leaving[0].tolist() == pytest.approx([2 * 1.8, 2 * 1.8 + 2 * 1.0])
