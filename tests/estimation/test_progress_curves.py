"""Rates and speed-ups from progress reports: a naive twin, curves that fall, intervals, one liar."""

from __future__ import annotations

import math

import numpy as np
import pytest

from corewise.estimation.progress.curves import MEMORY, MISSED, Cells, RateCurves, SpeedTable
from corewise.estimation.progress.learned import LearnedClass, LearnedJobs
from corewise.estimation.progress.reports import ReportTally
from corewise.estimation.progress.statistics import BY_AMOUNT
from corewise.kit.arrays import Floats

WIDTHS = (1, 2, 4, 8, 16, 32)


def falling(z: Floats | float) -> Floats:
    """USL with σ = 0.06 and κ = 0.008: its peak is at √(0.94/0.008) = 10.8 cores."""
    return np.asarray(z / (1.0 + (z - 1.0) * (0.06 + 0.008 * z)))


def reported(
    rng: np.random.Generator, reports: int, noise: float, *, widths: tuple[int, ...] = WIDTHS
) -> ReportTally:
    """One report each of as many jobs, at about the same progress: 10 s(z) per second, relative errors."""
    tally = ReportTally()
    for k in range(reports):
        z = widths[k % len(widths)]
        rate = 10.0 * float(falling(z)) * math.exp(noise * rng.normal())
        tally.report(f"job {k}", "a", cores=z, amount=100.0, seconds=100.0 / rate)
    return tally


def learned(tally: ReportTally, most: int = 32) -> LearnedClass:
    return LearnedJobs(tally.seen(), most)["a"]


# --- a naive twin ------------------------------------------------------------------------------


def naive_table(cells: list[tuple[float, int, float, float]], octave: float, most: int) -> SpeedTable:
    """The posterior at a progress as the module's docstring has it, one curve and one width at a time.

    `cells` are octave, cores, logarithm of the rate and its variance.
    """
    precision: dict[int, float] = {}
    total: dict[int, float] = {}
    for at, cores, log_rate, variance in cells:
        near = math.exp(-abs(at - octave) / MEMORY) / variance
        precision[cores] = precision.get(cores, 0.0) + near
        total[cores] = total.get(cores, 0.0) + near * log_rate
    mean = {z: total[z] / precision[z] for z in precision}
    weight = {z: 1.0 / (MISSED**2 + 1.0 / precision[z]) for z in precision}
    whole = sum(weight.values())
    curves = []
    for sigma in np.geomspace(1e-3, 1.0, 22):
        for kappa in np.geomspace(1e-6, 0.3, 15):

            def log_s(z: int, sigma: float = sigma, kappa: float = kappa) -> float:
                return math.log(z / (1.0 + sigma * (z - 1) + kappa * z * (z - 1)))

            level = sum(weight[z] * (mean[z] - log_s(z)) for z in weight) / whole
            misfit = sum(weight[z] * (mean[z] - level - log_s(z)) ** 2 for z in weight)
            prior = -0.5 * (math.log(sigma / 0.1) / 1.2) ** 2 - math.log1p(
                (math.log(kappa / 1e-6) / 1.5) ** 2
            )
            curves.append((prior - 0.5 * misfit, level, [log_s(z) for z in range(1, most + 1)]))
    best = max(fit for fit, _, _ in curves)
    shares = [math.exp(fit - best) for fit, _, _ in curves]
    shares = [share / sum(shares) for share in shares]
    back = {z: MISSED**2 / (MISSED**2 + 1.0 / precision[z]) for z in precision}

    def posterior(values: list[float], given_curve: float) -> tuple[float, float]:
        at = sum(share * value for share, value in zip(shares, values, strict=True))
        return at, given_curve + sum(s * (v - at) ** 2 for s, v in zip(shares, values, strict=True))

    def missed(z: int, level: float, logs: list[float]) -> float:
        return back.get(z, 0.0) * (mean.get(z, 0.0) - level - logs[z - 1])

    speeds, errors = [0.0, 1.0], [0.0, 0.0]
    first = back.get(1, 0.0)
    for z in range(2, most + 1):
        values = [logs[z - 1] + missed(z, a, logs) - missed(1, a, logs) for _, a, logs in curves]
        own = back.get(z, 0.0)
        at, variance = posterior(values, (2.0 - own - first) * MISSED**2 + (own - first) ** 2 / whole)
        speeds.append(math.exp(at))
        errors.append(math.sqrt(variance))
    values = [a + missed(1, a, logs) for _, a, logs in curves]
    at, variance = posterior(values, (1.0 - first) * MISSED**2 + (1.0 - first) ** 2 / whole)
    return SpeedTable(np.array(speeds), np.array(errors), math.exp(at), math.sqrt(variance))


def test_speeds_and_rates_are_those_of_a_naive_twin() -> None:
    """Cells at four bins of progress and on five widths, not all of them at each."""
    rng = np.random.default_rng(3)
    rows = [(o, z) for o in (3.125, 4.125, 4.375, 6.875) for z in (1, 2, 3, 8, 12) if rng.uniform() < 0.6]
    cells = [
        (o, z, float(rng.normal(2.0 + 0.5 * math.log(z), 0.3)), float(rng.uniform(0.002, 0.1)))
        for o, z in rows
    ]
    octave, cores, log_rate, variance = (np.array(column) for column in zip(*cells, strict=True))
    curves = RateCurves(Cells(octave, cores, log_rate, variance, np.ones(octave.size)), 14)
    for k, at in enumerate(curves.octaves):
        twin, table = naive_table(cells, at, 14), curves.at(at)
        assert table.speeds == pytest.approx(twin.speeds, rel=1e-9)
        assert table.errors == pytest.approx(twin.errors, rel=1e-6, abs=1e-7)
        assert table.rate == pytest.approx(twin.rate, rel=1e-9)
        assert table.rate_error == pytest.approx(twin.rate_error, rel=1e-9)
        assert curves.one_core_rates[k] == pytest.approx(twin.rate, rel=1e-9)


def test_a_cell_has_hubers_location() -> None:
    """Of many stretches: the root of Σ ψ((x − m)/s), ψ clipped at 1.5, at the spread it found."""
    rng, tally = np.random.default_rng(8), ReportTally()
    rates = np.exp(rng.normal(2.0, 0.1, 200))
    rates[:10] *= 5.0
    for k, rate in enumerate(rates):
        tally.report(f"{k}", "a", cores=2, amount=64.0, seconds=64.0 / rate)
    cells = Cells.of(tally.seen()["a"].rates, BY_AMOUNT)
    (at,), (variance,) = cells.log_rate, cells.variance
    spread = math.sqrt(200.0 * (variance - 0.03**2))
    psi = np.clip(np.log(rates) - at, -1.5 * spread, 1.5 * spread)
    assert abs(psi.mean()) < 0.01  # of rows an eighth of an octave wide
    assert at == pytest.approx(2.0, abs=4.0 * 0.1 / math.sqrt(200.0))
    assert np.log(rates).mean() - 2.0 > 0.06  # the control: the mean is moved by the ten


# --- curves ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("reports", "error"), [(10, 0.25), (100, 0.1), (1000, 0.06)])
def test_a_curve_that_falls_is_learned_and_its_peak_found(reports: int, error: float) -> None:
    """Noise 10 %, three fixed seeds; from 100 reports on the best width is within a step of 8."""
    for seed in range(3):
        table = learned(reported(np.random.default_rng(seed), reports, 0.1)).speeds(50.0)
        z = np.arange(1.0, 17.0)
        assert np.abs(np.log(table.speeds[1:17] / falling(z))).max() < error
        if reports >= 100:
            assert 8 / 2 <= WIDTHS[table.speeds[list(WIDTHS)].argmax()] <= 8 * 2


def test_intervals_cover() -> None:
    """95 % intervals at five widths in 200 runs: at least 92 % (a false alarm in 1e-4 of independent runs).

    They are wider than the noise asks for, by what a family may miss. The control, intervals half as wide
    as the noise alone asks for, must fail the same bound.
    """
    rng = np.random.default_rng(11)
    inside, halved, tried = 0, 0, 0
    for _ in range(200):
        table = learned(reported(rng, 30, 0.2)).speeds(50.0)
        for z in WIDTHS[1:]:
            off = abs(math.log(table.speeds[z] / float(falling(z))))
            inside += off < 1.96 * table.errors[z]
            halved += off < 0.5 * 1.96 * 0.2 * math.sqrt(2.0 / 5.0)
            tried += 1
    assert inside / tried >= 0.92
    assert halved / tried < 0.92


def test_a_cautious_table_is_lower_where_less_was_measured() -> None:
    table = learned(reported(np.random.default_rng(2), 40, 0.1, widths=(1, 2, 4)), most=32).speeds(50.0)
    lost = 1.0 - table.at_least(1.645)[1:] / table.speeds[1:]
    assert lost[0] == 0.0
    assert lost[3] < lost[15] < lost[31]


def test_without_a_report_speeds_are_those_of_the_prior() -> None:
    table = LearnedJobs(ReportTally().seen(), 8)["new"].speeds()
    assert table.speeds[:2].tolist() == [0.0, 1.0]
    assert 3.0 < table.speeds[8] < 8.0  # Amdahl's law at p = 0.9: 4.7
    assert math.isnan(table.rate)
    assert math.isnan(LearnedJobs(ReportTally().seen(), 8)["new"].work().remaining)


def test_curves_follow_progress() -> None:
    """Jobs scale not at all up to 64, and linearly from 1024 on."""
    tally = ReportTally()
    for k, z in enumerate([1, 2, 4, 8] * 5):
        tally.report(f"job {k}", "a", cores=z, amount=64.0, seconds=6.4)
        tally.report(f"job {k}", "a", cores=None, amount=960.0, seconds=1.0)
        tally.report(f"job {k}", "a", cores=z, amount=100.0, seconds=10.0 / z)
    early, late = learned(tally).speeds(32.0).speeds, learned(tally).speeds(1050.0).speeds
    assert early[8] < 1.3
    assert late[8] > 7.0


# --- one liar -----------------------------------------------------------------------------------


@pytest.mark.parametrize("times", [3.0, 1e6, 1e-6])
def test_one_job_that_lies_moves_the_speeds_by_no_more_than_their_error(times: float) -> None:
    """Its rates are so many times what they are, on every width; a clean run beside."""
    tables = []
    for lies in (1.0, times):
        tally = reported(np.random.default_rng(4), 60, 0.1)
        for z in WIDTHS:
            seconds = 10.0 / lies / float(falling(z))
            tally.report(f"liar {z}", "a", cores=z, amount=100.0, seconds=seconds)
        tables.append(learned(tally).speeds(50.0))
    clean, lied = tables
    moved = np.abs(np.log(lied.speeds[2:17] / clean.speeds[2:17]))
    assert (moved <= lied.errors[2:17]).all()
    assert abs(math.log(lied.rate / clean.rate)) <= lied.rate_error


# --- made anew only where something is new -------------------------------------------------------


def test_what_is_learned_is_made_anew_where_reports_say_something_new() -> None:
    """Of two classes one is reported of: by little, on wider jobs, by a first size, by much."""
    tally = reported(np.random.default_rng(1), 60, 0.1, widths=(1, 2, 4))
    tally.report("other", "b", cores=1, amount=5.0, seconds=5.0)
    first = LearnedJobs(tally.seen(), 8).after(tally)
    kept = first["a"], first["b"]
    tally.report("job 3", "a", cores=1, amount=0.1, seconds=0.01)
    little = first.after(tally)
    assert little["a"] is kept[0]
    tally.report("job 3", "a", cores=8, amount=0.1, seconds=0.01)
    wider = little.after(tally)
    assert (wider["a"].widest, wider["b"]) == (8, kept[1])
    assert wider["b"] is kept[1]
    tally.finished("job 3")
    sized = wider.after(tally)
    assert sized["a"].sizes.known == 1.0
    assert sized["a"].reports == tally.seen()["a"]
    tally.finished("job 4")
    assert sized.after(tally)["a"] is sized["a"]
    tally.report("late", "a", cores=1, amount=100.0, seconds=1e4)
    assert sized.after(tally)["a"].reports == LearnedJobs(tally.seen(), 8)["a"].reports
