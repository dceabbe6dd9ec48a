"""Advice from a log: jobs and sizes against what was simulated, replays against the log, refusals."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

import corewise as cw
from corewise.errors import BoxTooLarge, InvalidInput
from corewise.kit.arrays import Floats
from corewise.model.speedup import SpeedUp
from corewise.model.tabulated_sizes import PiecewiseExponential
from corewise.observation.sample_path import NO_JOB, EventKind, SamplePath
from corewise.observation.statistics import ClassStatistics
from corewise.plots.advice.page import advice_page
from corewise.policies.base import BoundPolicy, bind
from corewise.sizes import Exponential
from corewise.studies.advice.advice import advise
from corewise.studies.advice.curves import _falls, resized_share
from corewise.studies.advice.logged_jobs import LoggedJobs
from corewise.studies.advice.outcomes import CoresNeeded, LogSimulations, PolicyOutcome
from corewise.studies.advice.replay import LogReplay, ratio_of
from corewise.studies.advice.results import (
    Advice,
    cores_in_words,
    gain_in_words,
    interval_in_words,
    less_time,
    one_more_in_words,
)

SYSTEM = cw.System(
    8,
    [cw.JobClass("wide", 0.8, 0.5, cw.Amdahl(0.95)), cw.JobClass("narrow", 1.5, 0.8, cw.Amdahl(0.5))],
)
CURVES = [known.speedup for known in SYSTEM.classes]


def trace(jobs: int, seed: int = 1) -> cw.Trace:
    """Jobs with lognormal sizes."""
    rng = np.random.default_rng(seed)
    rates = SYSTEM.arrival_rates
    which = rng.choice(2, jobs, p=rates / rates.sum())
    time = np.cumsum(rng.exponential(1.0 / rates.sum(), jobs))
    sizes = rng.lognormal(-0.5, 1.0, jobs) / SYSTEM.size_rates[which]
    return cw.Trace(time, [SYSTEM.names[i] for i in which], sizes)


def logged(jobs: cw.Trace, policy: str = "equi") -> SamplePath:
    path = cw.simulate(SYSTEM, policy, jobs=jobs, record=True).path
    assert path is not None
    return path


JOBS = trace(1500)
LOG = logged(JOBS)


@pytest.fixture(scope="module")
def advice() -> Advice:
    return advise(LOG, rng=3)


@pytest.mark.parametrize("per_job", [False, True])
def test_work_on_the_true_curve_is_the_size(per_job: bool) -> None:
    jobs = LoggedJobs.of(LOG.split() if per_job else LOG)
    assert np.allclose(jobs.work(CURVES), JOBS.size, rtol=1e-9)
    assert np.array_equal(jobs.time, JOBS.time)
    assert jobs.counted.all()


def test_the_log_run_again_under_its_own_policy_is_the_log() -> None:
    """Whatever the curves are: on others the same jobs have other sizes, and take the same time."""
    jobs = LoggedJobs.of(LOG)
    replay = LogReplay.of(jobs, [Exponential()] * 2, most=10_000, seed=1)
    for curves in (CURVES, [cw.Amdahl(0.3), cw.PowerLaw(0.9)]):
        plant = SYSTEM.with_curves(dict(zip(SYSTEM.names, curves, strict=True)))
        again = replay.run(SYSTEM, bind("equi", plant), curves)
        assert np.allclose(again, jobs.response, rtol=1e-7)
    other = replay.run(SYSTEM, bind("priority:wide,narrow", SYSTEM), CURVES)
    assert not np.allclose(other, jobs.response, rtol=0.05)  # negative control


def test_jobs_that_failed_or_go_on_run_and_do_not_count() -> None:
    event = LOG.event.copy()
    leaves = np.flatnonzero(event == EventKind.DEPARTURE)
    event[leaves[::10]] = EventKind.CANCEL
    keep = LOG.time <= np.quantile(LOG.time, 0.9)
    cut = SamplePath(
        LOG.names, LOG.pool, LOG.time[keep], event[keep], LOG.job_class[keep], LOG.job[keep], LOG.cores[keep]
    )
    jobs = LoggedJobs.of(cut)
    done = jobs.work(CURVES)
    sizes = jobs.completed(done, [Exponential()] * 2, np.random.default_rng(1))
    true = JOBS.size[: jobs.time.size]
    ended = ~jobs.unfinished
    assert jobs.failed.sum() == np.count_nonzero(event[keep] == EventKind.CANCEL)
    assert jobs.unfinished.any()
    assert not np.any(jobs.counted & (jobs.failed | jobs.unfinished))
    assert np.allclose(sizes[ended], true[ended], rtol=1e-9)
    assert np.all(sizes[jobs.unfinished] > done[jobs.unfinished])
    times = LogReplay.of(jobs, [Exponential()] * 2, most=10_000, seed=1).run(
        SYSTEM, bind("equi", SYSTEM), CURVES
    )
    assert times.size == jobs.counted.sum()
    assert np.all(np.isfinite(times))


def test_what_is_left_of_a_job_has_the_conditional_law() -> None:
    """P(X − a > y | X > a) = S(a + y)/S(a); by chance off by 0.02 with probability below 1e-6."""
    law = PiecewiseExponential([0.0, 0.2, 1.0, 3.0], [4.0, 1.0, 0.5, 0.2])
    attained = 0.7
    left = law.draw_residual(np.random.default_rng(5), np.full(40_000, attained))
    for y in (0.1, 0.5, 2.0):
        expected = float(law.survival(attained + y)) / float(law.survival(attained))
        assert np.mean(left > y) == pytest.approx(expected, abs=0.015)
        assert abs(np.mean(left > y) - float(law.survival(y))) > 0.02  # negative control: not a new job


def test_ratios_of_independent_jobs_cover() -> None:
    """95 % intervals from blocks; 400 of them cover 370 to 393 with probability above 0.99 (binomial)."""
    rng, covered = np.random.default_rng(7), 0
    for _ in range(400):
        old = rng.exponential(1.0, 400)
        low, high = ratio_of(0.8 * old * rng.uniform(0.5, 1.5, 400), old).interval
        covered += low <= 0.8 <= high
    assert 366 <= covered <= 394


@pytest.mark.parametrize("name", ["equi", "whittle", "optimal"])
def test_policies_are_compared_on_the_same_jobs(advice: Advice, name: str) -> None:
    row = advice[name]
    assert row.interval[0] <= row.mean <= row.interval[1]
    assert row.gain_interval[0] <= row.gain <= row.gain_interval[1]
    width = row.gain_interval[1] - row.gain_interval[0]
    of_jobs = row.gain_interval_of_jobs[1] - row.gain_interval_of_jobs[0]
    assert width >= of_jobs - 1e-12
    if name == "equi":
        assert abs(row.gain) < 1e-6  # it is the policy of the log


def test_cores_needed_meet_the_target(advice: Advice) -> None:
    found = advice.cores
    assert found.cores is not None
    mean = {cores: value for cores, value, *_ in found.curve}
    assert mean[found.cores] <= found.target
    if found.cores - 1 in mean:
        assert mean[found.cores - 1] > found.target
    may, surely = found.interval
    assert may is not None
    assert may <= found.cores <= (surely or 10**6)
    assert found.one_more_interval[0] <= found.one_more <= found.one_more_interval[1]


def test_the_system_is_that_of_the_log(advice: Advice) -> None:
    for found, true in zip(advice.system.classes, SYSTEM.classes, strict=True):
        assert found.arrival_rate == pytest.approx(true.arrival_rate, rel=0.15)  # 4 standard errors
    busy = float(LOG.cores[:-1].sum(axis=1) @ np.diff(LOG.time)) / LOG.duration / 8.0
    assert advice.usage.utilisation == pytest.approx(busy, rel=1e-6)
    assert " ".join(str(advice).split()).startswith(advice.verdict)


# --- what a log cannot tell -------------------------------------------------------------------


def kept(came: Floats, lasts: Floats, width: Floats, names: tuple[str, ...]) -> SamplePath:
    """Log of jobs that keep their cores from arrival to end, of each class in turn."""
    jobs = came.size
    time = np.concatenate([came, came + lasts])
    event = np.repeat([EventKind.ARRIVAL, EventKind.DEPARTURE], jobs).astype(np.int8)
    which, job = np.tile(np.arange(jobs) % len(names), 2), np.tile(np.arange(jobs), 2)
    order = np.argsort(time, kind="stable")
    cores = np.concatenate([width, np.full(jobs, np.nan)])
    return SamplePath(names, 128.0, time[order], event[order], which[order], job[order], cores[order])


def rigid(jobs: int = 400, names: tuple[str, ...] = ("a", "b")) -> SamplePath:
    """Jobs that keep the cores they ask for, and ask for more the larger they are."""
    rng = np.random.default_rng(2)
    came = np.cumsum(rng.exponential(2.0, jobs))
    width = rng.choice([1.0, 2.0, 4.0], jobs)
    return kept(came, rng.exponential(1.0, jobs) * width, width, names)


def busy(jobs: int, names: tuple[str, ...]) -> SamplePath:
    """Jobs that keep the cores they ask for, and hold some 45 of them on average."""
    rng = np.random.default_rng(5)
    came, width = np.cumsum(rng.exponential(1.0, jobs)), rng.choice([1.0, 2.0, 4.0, 8.0], jobs)
    return kept(came, rng.lognormal(2.0, 1.0, jobs), width, names)


def test_a_rigid_log_does_not_tell_curves() -> None:
    found = advise(rigid())
    assert all(resized_share(jobs) == 0.0 for jobs in LoggedJobs.of(rigid()).histories)
    for row in found.classes:
        assert not row.curve.informative
        assert "kept the cores" in row.curve.reason
    whittle = found["whittle"]
    low, high = sorted(whittle.gains_at_ends)
    assert low < high
    assert whittle.gain_interval[0] <= low
    assert high <= whittle.gain_interval[1]
    (why,) = (line for line in found.warnings if "does not tell their curves" in line)
    assert why.startswith("a, b: the log does not tell their curves (jobs kept the cores")
    (assumed,) = (line for line in found.warnings if "is assumed" in line)
    assert assumed.endswith("Amdahl's law with p = 0.9 is assumed, and ranges are for p from 0.5 to 1")
    assert any("could be resized is taken for granted" in line for line in found.warnings)
    low, value, high = (
        found.cores.one_more_interval[0],
        found.cores.one_more,
        found.cores.one_more_interval[1],
    )
    assert low <= value <= high


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (0.07, 0.75, "between 7% and 75% less time in the system"),
        (-0.05, 0.6, "anything between 5% more and 60% less time in the system"),
        (-0.2, -0.1, "between 10% and 20% more time in the system"),
    ],
)
def test_ranges_of_gains_in_words(low: float, high: float, said: str) -> None:
    assert less_time(low, high) == said


CLAIMS = ("for sure", "would have paid", "may have paid", "95 %")


def test_assumed_curves_make_the_answer_conditional() -> None:
    found = advise(rigid())
    sentences = (
        found.verdict,
        gain_in_words(found),
        cores_in_words(found),
        one_more_in_words(found),
        interval_in_words(found),
    )
    for claim in CLAIMS:
        assert not any(claim in sentence for sentence in sentences)
    condition = "if these jobs can be resized and their p lies between 0.5 and 1"
    assert all(condition in sentence.lower() for sentence in sentences[:4])
    measured = advise(rigid(), throughput={"a": cw.Amdahl(0.8), "b": cw.Amdahl(0.6)})
    assert measured.condition == ""
    assert "95 %" in cores_in_words(measured)  # negative control


def test_no_number_of_cores_below_those_that_were_busy_rests_on_an_assumption() -> None:
    """At p = 0.5 jobs need far fewer cores than they held, which no operator believes."""
    found = advise(busy(1500, ("a", "b")))
    held = found.usage.utilisation * found.usage.cores
    assert found.cores.interval[0] is None
    assert found.cores.cores is not None
    assert held <= found.cores.cores <= (found.cores.interval[1] or 0)
    assert "fewer may do, but this log does not tell how many" in cores_in_words(found)
    at_half = advise(busy(1500, ("a", "b")), throughput=dict.fromkeys("ab", cw.Amdahl(0.5)))
    assert at_half.cores.cores is not None
    assert at_half.cores.cores < held  # negative control: measured, it is an answer


def test_jobs_that_scale_linearly_lie_within_the_range_of_assumptions() -> None:
    assumed, linear = (
        advise(rigid(), throughput=curves) for curves in ({}, dict.fromkeys("ab", cw.Amdahl(1.0)))
    )
    low, high = assumed["equi"].gain_interval
    assert low <= linear["equi"].gain <= high
    assert linear["equi"].gain > max(assumed["equi"].gain, 0.5)  # far from the curve that is assumed
    assert linear.cores.cores is not None
    assert (assumed.cores.interval[1] or 0) >= linear.cores.cores


@pytest.mark.parametrize("classes", [2, 3])
def test_a_pool_that_cannot_keep_up_is_an_answer(classes: int) -> None:
    """Too few cores let more jobs pile up than tables of two or three classes hold."""
    found = advise(busy(8000, ("a", "b", "c")[:classes]))
    assert found.cores.cores is not None
    slowest = max(mean for _, mean, *_ in found.cores.curve)
    assert slowest > 20.0 * found.cores.target  # jobs piled up there
    assert [row.name for row in found.outcomes[:3]] == ["log", "equi", "whittle"]


def test_one_question_without_an_answer_leaves_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> CoresNeeded:
        raise BoxTooLarge("no room")

    monkeypatch.setattr(LogSimulations, "cores_needed", refuse)
    found = advise(rigid())
    assert (found.cores.cores, found.cores.interval) == (None, (None, None))
    assert np.isnan(found.cores.one_more)
    assert any("how many cores are needed" in line and "no room" in line for line in found.warnings)
    assert "Not known" in cores_in_words(found)
    assert "Not known" in one_more_in_words(found)
    assert "How many cores" not in advice_page(found, "title")
    monkeypatch.undo()
    of = LogSimulations.of

    def only_equi(self: LogSimulations, name: str, policy: BoundPolicy) -> PolicyOutcome:
        return of(self, name, policy) if name == "equi" else refuse()  # type: ignore[return-value]

    monkeypatch.setattr(LogSimulations, "of", only_equi)
    found = advise(rigid())
    assert [row.name for row in found.outcomes] == ["log", "equi"]
    assert any(line.startswith("whittle is left out of the comparison: no room") for line in found.warnings)
    monkeypatch.setattr(LogSimulations, "of", refuse)
    found = advise(rigid())
    assert found.best == "log"
    assert found.verdict == "No other policy could be compared with what was in force."
    assert "Not known" in gain_in_words(found)


def test_a_class_of_which_no_job_was_done_does_not_take_the_answers_away() -> None:
    """Of one class all jobs fail, of another all wait to the end without a core."""
    log = rigid(600, ("a", "b", "fails", "waits"))
    event, cores = log.event.copy(), log.cores.copy()
    event[(log.job_class == 2) & (event == EventKind.DEPARTURE)] = EventKind.CANCEL
    cores[log.job_class == 3] = 0.0
    keep = ~((log.job_class == 3) & (log.event == EventKind.DEPARTURE))
    columns = (log.time, event, log.job_class, log.job, cores)
    found = advise(SamplePath(log.names, log.pool, *(column[keep] for column in columns)))
    assert [row.usage.done for row in found.classes[2:]] == [0, 0]
    (few,) = (line for line in found.warnings if "fewer than 100 jobs" in line)
    assert few.startswith("2 classes")
    assert "fails (0)" in few
    assert "waits (0)" in few
    assert found.cores.cores is not None
    page = advice_page(found, "title")
    assert not re.search(r">nan<|[ \",]nan[ \",]", page)


def test_many_classes_are_named_together() -> None:
    names = tuple(f"k{i}" for i in range(30))
    found = advise(rigid(900, names))
    assert len(found.warnings) < 10
    (few,) = (line for line in found.warnings if "fewer than 100 jobs" in line)
    assert few.startswith("30 classes have fewer than 100 jobs that were done: k0 (30), k1 (30), ")
    assert few.endswith(" and 22 more")
    page = advice_page(found, "title")
    assert page.count("<svg") == 4  # policies, load, the assumed curve, cores
    assert page.count("18 more classes</summary>") == 3
    assert "25 other classes" in page
    assert page.count("jobs kept the cores they began with") == 1
    assert max(row.count("<td") for row in page.split("<tr>")) < 12


def test_measured_curves_take_the_place_of_assumptions() -> None:
    found = advise(rigid(), throughput={"a": cw.Amdahl(0.8), "b": cw.Amdahl(0.6)})
    assert [row.curve.source for row in found.classes] == ["throughput"] * 2
    assert any(line.startswith("a, b: their curves are as measured (") for line in found.warnings)
    one = advise(rigid(), throughput={"a": cw.Amdahl(0.8)})
    assert any(line.startswith("a: its curve is as measured (") for line in one.warnings)
    assert any(line.startswith("b: the log does not tell its curve (") for line in one.warnings)
    assert found.system.classes[0].speedup == cw.Amdahl(0.8)
    assert found["whittle"].gains_at_ends == ()
    with pytest.raises(InvalidInput, match="unknown class 'c'"):
        advise(rigid(), throughput={"c": cw.Amdahl(0.8)})


def table(departures: Floats, job_time: Floats) -> ClassStatistics:
    seen = cw.Statistics.of(LOG).classes[0]
    widths = np.arange(1.0, departures.size + 1.0)
    return replace(seen, widths=widths, departures=departures, job_time=job_time)


def test_widths_that_go_by_size_are_noticed() -> None:
    rng = np.random.default_rng(3)
    rates = np.array([1.0, 0.7, 0.5, 0.35])
    time = np.full(4, 400.0)
    assert _falls(table(rng.poisson(rates * time).astype(float), time), 1.0)
    for _ in range(20):  # at a level of 1e-3: all twenty pass with probability 0.98 at least
        level = rng.poisson(np.array([1.0, 1.0, 1.2, 1.5]) * time).astype(float)
        assert not _falls(table(level, time), 1.0)


# --- what is refused --------------------------------------------------------------------------


def one_job(names: tuple[str, ...]) -> SamplePath:
    event = np.array([EventKind.ARRIVAL, EventKind.DEPARTURE], dtype=np.int8)
    zero = np.zeros(2, dtype=np.int64)
    return SamplePath(names, 8.0, np.array([0.0, 1.0]), event, zero, zero, np.array([1.0, np.nan]))


def test_logs_that_say_nothing_are_refused() -> None:
    for names, said in ((("wide",), "one class, 'wide'"), (("a", "b"), "1 of 1 jobs")):
        with pytest.raises(InvalidInput, match=said):
            advise(one_job(names))
    failed = np.where(LOG.event == EventKind.DEPARTURE, EventKind.CANCEL, LOG.event).astype(np.int8)
    with pytest.raises(InvalidInput, match=r"0 of 1500 jobs.*1500 failed"):
        advise(SamplePath(LOG.names, 8.0, LOG.time, failed, LOG.job_class, LOG.job, LOG.cores))
    nameless = SamplePath(
        LOG.names, 8.0, LOG.time, LOG.event, LOG.job_class, np.full(LOG.job.size, NO_JOB), LOG.cores
    )
    with pytest.raises(InvalidInput, match="have no names"):
        advise(nameless)


def test_total_cores_are_the_same_in_both_forms() -> None:
    (t, held), (u, again) = LOG.total_cores(), LOG.split().total_cores()
    assert np.array_equal(t, u)
    assert np.allclose(held, again, atol=1e-9)


def test_a_band_holds_the_interval_of_every_family_that_is_not_excluded(advice: Advice) -> None:
    unknown = SYSTEM.without_rates()
    for row in advice.classes:
        cores = np.array([row.usage.widths[1]])
        low, high = (float(end[0]) for end in row.curve.band(cores))
        considered = [f for f in ("amdahl", "power") if row.curve.weights[f] > 0.02]
        ends = [
            float(estimated.curve.with_parameters(p=p).rate(cores)[0])
            for estimated in (cw.estimate(LOG, unknown, family=f)[row.name] for f in considered)
            if estimated.curve is not None
            for p in estimated.interval
        ]
        assert len(ends) == 2 * len(considered) > 0
        assert low <= min(ends) + 1e-9
        assert high >= max(ends) - 1e-9
        drawn = np.quantile([float(curve.rate(cores)[0]) for curve in row.curve.likely], (0.025, 0.975))
        assert low <= drawn[0]
        assert drawn[1] <= high


def test_jobs_that_take_no_time_take_none_under_any_policy() -> None:
    """Logs that are kept to the second have jobs that begin and end in one; the others are as before."""
    jobs = LoggedJobs.of(LOG)
    replay = LogReplay.of(jobs, [Exponential()] * 2, most=10_000, seed=1)
    quick = np.arange(jobs.time.size) == 700
    response = np.where(quick, 0.0, jobs.response)

    class Quick(LoggedJobs):
        def work(self, curves: Sequence[SpeedUp]) -> Floats:
            return np.where(quick, 0.0, super().work(curves))

    made = Quick(**{**vars(jobs), "response": response})
    times = replace(replay, jobs=made).run(SYSTEM, bind("equi", SYSTEM), CURVES)
    assert times[700] == 0.0
    assert np.all(np.delete(times, 700) > 0.0)
    waited = Quick(**{**vars(jobs), "waiting": np.where(quick, jobs.response, jobs.waiting)})
    assert np.array_equal(np.flatnonzero(waited.quick), [700])
    assert replace(replay, jobs=waited).run(SYSTEM, bind("equi", SYSTEM), CURVES)[700] == 0.0
    quick = np.arange(jobs.time.size) % 20 == 0  # too many: the log lacks cores
    with pytest.raises(InvalidInput, match="done although they never held a core"):
        replace(replay, jobs=waited).run(SYSTEM, bind("equi", SYSTEM), CURVES)


def test_decisions_per_job_are_tried_where_sizes_are_surely_not_exponential() -> None:
    """The row is the log run again under job-index made for the sizes that were found.

    Its interval holds the curves as they move Whittle. On exponential sizes, where it is Whittle, there is no
    such row.
    """
    law = cw.sizes.Hyperexponential(16.0)
    classes = [cw.JobClass(name, 1.2, 1.0, cw.Amdahl(0.6), sizes=law) for name in ("a", "b")]
    system = cw.System(3, classes)
    log = cw.simulate(system, "equi", departures=1000, rng=5, record=True)
    found = advise(log, rng=1)
    row, whittle = found["job-index"], found["whittle"]
    assert row.mean != pytest.approx(whittle.mean, rel=1e-3)
    assert row.gain_interval[0] < row.gain < row.gain_interval[1]
    with pytest.raises(KeyError):
        found["residual"]
    plain = system.with_classes([replace(known, sizes=Exponential()) for known in classes])
    with pytest.raises(KeyError):
        advise(cw.simulate(plain, "equi", departures=800, rng=5, record=True), rng=1)["job-index"]
