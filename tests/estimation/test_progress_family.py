"""Curves from progress: unbiased, surer than from departures, and not gone by where they contradict them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import corewise as cw
from corewise.estimation.estimates import Estimate
from corewise.estimation.progress.family import CONTRADICTED, FROM_PROGRESS, with_progress
from corewise.estimation.unknown_rates import estimate_unknown
from corewise.observation.progress import ClassProgress
from corewise.observation.statistics import ClassStatistics, Statistics

CURVE = cw.Amdahl(0.8)
WIDTHS = np.array([1.0, 2.0, 4.0, 8.0])
SYSTEM = cw.System(8, [cw.JobClass("one", speedup=cw.Amdahl(0.5))])


def progress(
    rng: np.random.Generator, stretches: int, unit: float, spread: float, curve: cw.SpeedUp = CURVE
) -> ClassProgress:
    """Stretches of random length at each width, in which work is done in gamma steps of mean `unit`."""
    rows = []
    for width in WIDTHS:
        time = rng.exponential(1.0, stretches)
        mean = 10.0 * float(curve.rate(width)) * time
        work = unit * (rng.gamma(mean / spread, spread) if spread else mean)
        rows.append((stretches, work.sum(), time.sum(), (work**2 / time).sum()))
    count, done, time, squares = np.array(rows, dtype=np.float64).T
    return ClassProgress(WIDTHS, count, done, time, squares, (100.0, 10.0, 100.0**2 - 100.0))


def departures(rng: np.random.Generator, curve: cw.SpeedUp = CURVE, time: float = 40.0) -> ClassStatistics:
    job_time = np.full(WIDTHS.size, time)
    counts = rng.poisson(np.asarray(curve.rate(WIDTHS)) * job_time).astype(np.float64)
    return ClassStatistics(int(counts.sum()), WIDTHS, counts, job_time)


def found_from(table: ClassStatistics) -> Estimate:
    return estimate_unknown(Statistics(("one",), float(table.job_time.sum()), (table,)), SYSTEM, SYSTEM)[
        "one"
    ]


@pytest.mark.parametrize("unit", [1.0, 1e6])
@pytest.mark.parametrize("spread", [1.0, 5.0])
def test_dispersion_is_the_variance_of_work_over_its_mean(unit: float, spread: float) -> None:
    """Of 1200 stretches: a relative error of about √(2/1200) = 4 %, more for few steps; four of them."""
    seen = progress(np.random.default_rng(3), 300, unit, spread)
    assert seen.dispersion == pytest.approx(unit * spread, rel=0.25)


def test_rounds_of_one_size_have_the_least_dispersion() -> None:
    seen = progress(np.random.default_rng(3), 300, 1.0, 0.0)
    assert seen.dispersion == pytest.approx(seen.work.sum() / (50.0 * 1200.0))


def test_few_stretches_say_nothing() -> None:
    seen = progress(np.random.default_rng(3), 5, 1.0, 1.0)
    assert np.isnan(seen.dispersion)
    found = found_from(departures(np.random.default_rng(1)))
    assert with_progress(found, departures(np.random.default_rng(1)), seen, CURVE) is found


@pytest.mark.statistical
@pytest.mark.parametrize("spread", [0.3, 5.0])
def test_intervals_cover_whatever_the_unit_and_the_dispersion(spread: float) -> None:
    """95 % intervals in 200 samples: with a coverage of 95 % fewer than 176 have a probability of 1e-5.

    The control: as if work were counts, a dispersion of 5 is missed more often than that.
    """
    rng = np.random.default_rng(17)
    table = departures(rng)
    found = found_from(table)
    covered = naive = 0
    for _ in range(200):
        seen = progress(rng, 60, 7.0, spread)
        low, high = with_progress(found, table, seen, CURVE).interval
        covered += low <= 0.8 <= high
        counts = replace(seen, squares=seen.work**2 / seen.job_time * (1.0 + seen.stretches / seen.work))
        low, high = with_progress(found, table, counts, CURVE).interval
        naive += low <= 0.8 <= high
    assert covered >= 176
    if spread > 1.0:
        assert naive < 176


def test_progress_is_gone_by_and_the_size_rate_is_that_of_departures() -> None:
    rng = np.random.default_rng(5)
    table = departures(rng)
    found = found_from(table)
    better = with_progress(found, table, progress(rng, 200, 1.0, 1.0), CURVE)
    assert better.note == FROM_PROGRESS
    assert better.stderr < 0.3 * found.stderr
    served = float(table.job_time @ cw.Amdahl(better.value).rate(table.widths))
    assert better.size_rate is not None
    assert better.size_rate.value == pytest.approx(table.left / served)
    assert better.dispersion is not None
    assert better.dispersion.value == pytest.approx(1.0, rel=0.01)


@pytest.mark.statistical
def test_rounds_that_do_not_scale_as_the_job_are_found_out_and_others_are_not() -> None:
    """Rounds that take as long on any width, while jobs leave as the curve says.

    Of 100 samples that agree, none should be found out: each is with a probability of 1e-5.
    """
    rng = np.random.default_rng(6)
    flat = progress(rng, 200, 1.0, 1.0, cw.Amdahl(0.0))
    caught, wrong = 0, 0
    for _ in range(100):
        table = departures(rng)
        found = found_from(table)
        against = with_progress(found, table, flat, CURVE)
        caught += CONTRADICTED in against.note and against.value == found.value
        wrong += CONTRADICTED in with_progress(found, table, progress(rng, 200, 1.0, 1.0), CURVE).note
    assert caught == 100
    assert wrong == 0


def test_where_the_size_rate_is_known_the_surer_estimate_is_gone_by() -> None:
    rng = np.random.default_rng(7)
    table = departures(rng, time=4000.0)
    known = cw.System(8, [cw.JobClass("one", 1.0, 1.0, cw.Amdahl(0.5))])
    found = cw.estimate(Statistics(("one",), 16000.0, (table,)), known)["one"]
    seen = progress(rng, 20, 1.0, 1.0)
    assert with_progress(found, table, seen, CURVE) is found
    few = departures(rng, time=10.0)
    unsure = cw.estimate(Statistics(("one",), 40.0, (few,)), known)["one"]
    better = with_progress(unsure, few, progress(rng, 400, 1.0, 1.0), CURVE)
    assert better.note == FROM_PROGRESS
    assert better.size_rate is None
