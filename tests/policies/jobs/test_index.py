"""The index policy for jobs, and equal shares under policies of classes."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import corewise as cw
from corewise.errors import InvalidInput, InvalidPolicy
from corewise.policies.base import policy_named
from corewise.policies.jobs.index import JobIndex
from corewise.policies.jobs.levels import JobLevels
from corewise.policies.jobs.remaining import RemainingWork
from corewise.policies.jobs.state import JobState, progress_of

LAWS = [
    cw.sizes.Lognormal(4.0),
    cw.sizes.Hyperexponential(16.0),
    cw.sizes.Erlang(4),
    cw.sizes.Weibull(0.5),
    cw.sizes.Pareto(1.5, cut=1000.0),
    cw.sizes.Lognormal(0.1),
]


def system_of(sizes: cw.sizes.SizeLaw, *, cores: float = 8, p: float = 0.9) -> cw.System:
    classes = [cw.JobClass(name, 2.0, 0.5, cw.Amdahl(p), sizes=sizes) for name in ("a", "b")]
    return cw.System(cores, classes)


def shares(policy: cw.Policy, system: cw.System, *jobs: JobState) -> list[float]:
    return list(policy.on(system).allocate_jobs(jobs).values())


def test_exponential_sizes_give_the_class_optimum_back() -> None:
    for name in ("paper:1", "paper:2", "paper:3"):
        system = cw.load_system(name).at_load(0.7)
        assert cw.evaluate(system, JobIndex()).mean_jobs <= 1.001 * cw.solve(system).mean_jobs


@pytest.mark.slow
@pytest.mark.parametrize("name", ["paper:1", "paper:2", "paper:3"])
@pytest.mark.parametrize("load", [0.5, 0.85, 0.95])
def test_exponential_sizes_at_other_loads(name: str, load: float) -> None:
    system = cw.load_system(name).at_load(load)
    assert cw.evaluate(system, JobIndex()).mean_jobs <= 1.001 * cw.solve(system).mean_jobs


def unequal(p: tuple[float, float], ratio: float, load: float, cores: float = 4.0) -> cw.System:
    """Two exponential classes that bring the same work in jobs of unequal mean size."""
    rates, root = np.array([1.0, 1.0]), math.sqrt(ratio)
    classes = [
        cw.JobClass(name, rate * size_rate, size_rate, cw.Amdahl(curve))
        for name, rate, size_rate, curve in zip("ab", rates, (1.0 / root, root), p, strict=True)
    ]
    return cw.System(cores, classes).at_load(load)


@pytest.mark.parametrize(
    ("p", "ratio", "load"), [((0.97, 0.97), 5.0, 0.6), ((0.8, 0.9), 20.0, 0.7), ((0.99, 0.9), 3.0, 0.8)]
)
def test_exponential_classes_of_unequal_mean_size(p: tuple[float, float], ratio: float, load: float) -> None:
    """Cells on which nothing was chosen; on those where something was it is up to 1.2 % above the optimum."""
    system = unequal(p, ratio, load)
    assert cw.evaluate(system, JobIndex()).mean_jobs <= 1.015 * cw.solve(system).mean_jobs


def test_whittle_is_far_from_the_optimum_where_mean_sizes_differ() -> None:
    system = unequal((0.97, 0.97), 5.0, 0.6)
    assert cw.evaluate(system, cw.Whittle()).mean_jobs > 1.05 * cw.solve(system).mean_jobs


def test_the_recursion_by_counts_is_that_of_single_jobs() -> None:
    system = unequal((0.9, 0.95), 5.0, 0.8)
    bound = JobIndex().on(system)
    decision = bound.decision
    assert isinstance(decision, JobLevels)
    assert not decision.alike
    for counts in ((1, 1), (3, 2), (2, 5)):
        names = [f"{name}{k}" for name, n in zip("ab", counts, strict=True) for k in range(n)]
        shared = shares(JobIndex(), system, *(JobState(name, name[0]) for name in names))
        # Jobs with a limit of their own are decided one by one, also if it is no limit on shares.
        single = shares(JobIndex(), system, *(JobState(name, name[0], min_cores=1) for name in names))
        assert single == pytest.approx(shared, rel=1e-6)


def test_one_exponential_class_shares_equally() -> None:
    system = cw.System(8, [cw.JobClass("a", 4.0, 1.0, cw.Amdahl(0.9))])
    jobs = [JobState(str(k), "a", attained=float(k)) for k in range(5)]
    assert shares(JobIndex(), system, *jobs) == [1.6] * 5
    batch = shares(JobIndex(load=0.0), system, *jobs)  # by the recursion: equal distributions, equal weights
    assert batch == pytest.approx([1.6] * 5, rel=1e-9)


def test_whole_cores_follow_the_class_rule_for_exponential_sizes() -> None:
    system = cw.load_system("paper:2").at_load(0.9)
    bound = JobIndex().on(system)
    first, second = system.names
    for n in ((3, 4), (1, 7), (5, 2)):
        jobs = [JobState(f"x{k}", first) for k in range(n[0])] + [
            JobState(f"y{k}", second) for k in range(n[1])
        ]
        widths = bound.allocate_jobs(jobs, whole=True)
        per_job = bound.allocate(n) / np.array(n)
        for job in jobs:
            assert abs(widths[job.name] - per_job[system.index(job.job_class)]) <= 1.0
        assert sum(widths.values()) == system.cores


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_remaining_work_is_a_distribution(law: cw.sizes.SizeLaw) -> None:
    work = RemainingWork(cw.JobClass("a", 1.0, 0.5, cw.Amdahl(0.9), sizes=law))
    attained = np.array([0.0, 0.1, 3.0, 1e4, 1e9])
    found = work.probabilities(attained)
    assert found.shape == (5, work.middles.size)
    assert np.all(found >= 0.0)
    assert found.sum(axis=1) == pytest.approx(np.ones(5))
    draws = 2.0 * law.draw(np.random.default_rng(1), 200_000)
    edges = np.concatenate([[0.0], 2.0 * work.edges, [np.inf]])
    for row, done in zip(found[:2], attained[:2], strict=True):
        counts = np.histogram(draws[draws > done] - done, edges)[0]
        assert counts / counts.sum() == pytest.approx(row, abs=0.01)


def test_the_shortest_known_job_holds_most() -> None:
    system = system_of(LAWS[0])
    jobs = [JobState(str(k), "a", remaining=work) for k, work in enumerate((5.0, 0.1, 1.0))]
    found = shares(JobIndex(load=0.5), system, *jobs)
    assert found[1] > found[2] > found[0]
    assert sum(found) == pytest.approx(8.0)


def test_heavy_tails_favour_the_young_and_light_tails_the_old() -> None:
    young, old = JobState("young", "a"), JobState("old", "b", attained=2.5)
    heavy, light = (shares(JobIndex(load=0.5), system_of(law), young, old) for law in (LAWS[0], LAWS[2]))
    assert heavy[0] > heavy[1]
    assert light[0] < light[1]


def test_deterministic_sizes_are_known() -> None:
    system = system_of(cw.sizes.Deterministic())
    unknown = [JobState("x", "a", attained=0.5), JobState("y", "b", attained=1.5)]
    known = [replace_remaining(job, 2.0 - job.attained) for job in unknown]
    assert shares(JobIndex(), system, *unknown) == shares(JobIndex(), system, *known)


def replace_remaining(job: JobState, remaining: float) -> JobState:
    return JobState(job.name, job.job_class, attained=job.attained, remaining=remaining)


def test_no_job_is_wider_than_four_equal_shares() -> None:
    system = system_of(LAWS[0], p=0.999)
    jobs = [JobState(str(k), "a", remaining=10.0**k) for k in range(-4, 5)]
    for widest in (4.0, 2.0):
        found = shares(JobIndex(load=0.9, widest=widest), system, *jobs)
        assert max(found) == pytest.approx(max(1.0, widest * 8 / 9))
    whole = JobIndex(load=0.9).on(system).allocate_jobs(jobs, whole=True)
    assert max(whole.values()) == 3


def test_groups_of_many_jobs_are_near_jobs_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    system, rng = system_of(LAWS[0], cores=256), np.random.default_rng(4)
    jobs = [JobState(str(k), "ab"[k % 2], remaining=work) for k, work in enumerate(rng.lognormal(size=100))]
    one_by_one = np.array(shares(JobIndex(), system, *jobs))
    monkeypatch.setattr("corewise.policies.jobs.decision.tables.ONE_BY_ONE", 10)
    grouped = np.array(shares(JobIndex(), system, *jobs))
    assert np.abs(grouped - one_by_one).mean() < 0.05 * one_by_one.mean()
    assert sum(grouped) == pytest.approx(256.0)


def test_own_tables_may_fall() -> None:
    """Beyond its peak a job is given no more, and the rest is left idle."""
    system = system_of(LAWS[0])
    table = [0.0, 1.0, 1.8, 1.2, 0.9, 0.8, 0.7, 0.6, 0.5]
    bound = JobIndex(load=0.0).on(system)
    jobs = [JobState("x", "a", remaining=1.0, speeds=table)]
    assert bound.allocate_jobs(jobs, whole=True) == {"x": 2}
    assert bound.allocate_jobs(jobs) == {"x": 2.0}
    jobs.append(JobState("y", "b", remaining=1.0))
    assert bound.allocate_jobs(jobs, whole=True) == {"x": 2, "y": 6}


def test_limits_are_kept() -> None:
    system = system_of(LAWS[0])
    jobs = [
        JobState("x", "a", remaining=1.0, min_cores=3, max_cores=4),
        JobState("y", "a", remaining=2.0, max_cores=2),
        JobState("z", "b", remaining=9.0, min_cores=6),
    ]
    for policy in (JobIndex(), cw.Equi(), cw.Whittle()):
        bound = policy.on(system)
        for found in (
            bound.allocate_jobs(jobs),
            bound.allocate_jobs(jobs, whole=True),
            bound.allocate_jobs(jobs, whole=True, pause=1.0),
        ):
            assert found["x"] == 0 or 3 <= found["x"] <= 4
            assert found["y"] <= 2
            assert found["z"] == 0 or found["z"] >= 6
            assert sum(found.values()) <= 8 * (1 + 1e-12)


def test_a_job_that_has_waited_too_long_comes_first() -> None:
    system = system_of(LAWS[0], cores=2)
    jobs = [JobState(str(k), "a", remaining=1.0, held=1) for k in range(2)]
    late = JobState("late", "b", remaining=50.0, waited=10.0)
    for whole in (False, True):
        patient = JobIndex(longest_wait=100.0).on(system).allocate_jobs([*jobs, late], whole=whole)
        assert patient["late"] < 0.5
        served = JobIndex(longest_wait=10.0).on(system).allocate_jobs([*jobs, late], whole=whole)
        assert served["late"] >= 1


def test_classes_share_equally_within_a_class() -> None:
    system = cw.load_system("paper:1")
    first, second = system.names
    jobs = [JobState("x", first, attained=9.0), JobState("y", first), JobState("z", second)]
    for policy in (cw.Equi(), cw.Whittle(), cw.Greedy()):
        bound = policy.on(system)
        cores = bound.allocate([2, 1])
        assert list(bound.allocate_jobs(jobs).values()) == pytest.approx([cores[0] / 2] * 2 + [cores[1]])
        whole = bound.allocate_jobs(jobs, whole=True)
        assert sum(whole.values()) == 30
        assert abs(whole["x"] - whole["y"]) <= 1


def test_a_pause_keeps_jobs_where_they_are() -> None:
    system = cw.System(8, [cw.JobClass("a", 2.0, 0.5, cw.Amdahl(0.9))])
    held = [JobState("x", "a", held=5, attained=1.0), JobState("y", "a", held=3, attained=1.0)]
    equi = cw.Equi().on(system)
    assert equi.allocate_jobs(held, whole=True) == {"x": 4, "y": 4}
    assert equi.allocate_jobs(held, whole=True, pause=1.0) == {"x": 5, "y": 3}


def test_no_jobs_need_no_cores() -> None:
    for policy in (JobIndex(), cw.Equi()):
        assert policy.on(system_of(LAWS[0])).allocate_jobs([]) == {}
        assert policy.on(system_of(LAWS[0])).allocate_jobs([], whole=True, pause=1.0) == {}


def test_counts_alone_do_not_decide_for_other_sizes() -> None:
    decision = JobIndex().on(system_of(LAWS[0])).decision
    assert isinstance(decision, JobLevels)
    assert decision.by_counts_up_to == 0.0
    assert JobIndex().on(cw.load_system("paper:1")).by_counts


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"attained": -1.0}, "job 'x': attained work must not be negative, got -1.0"),
        ({"attained": math.nan}, "job 'x': attained work must be finite, got nan"),
        ({"remaining": -0.5}, "job 'x': remaining work must not be negative, got -0.5"),
        ({"remaining": math.nan}, "job 'x': remaining work must be finite, got nan"),
        ({"held": -1}, "job 'x': cores held must not be negative, got -1"),
        ({"speeds": []}, "job 'x': speeds must be those on 0, 1, 2, … cores, two at least, got []"),
        ({"speeds": [0.0, math.nan]}, "job 'x': speeds must be finite and not negative"),
        (
            {"speeds": [1.0, 2.0]},
            "job 'x': speeds must be finite and not negative, and zero on no core, got 1",
        ),
        ({"speeds": ["fast"]}, "job 'x': speeds must be numbers"),
        ({"min_cores": 4, "max_cores": 2}, "job 'x': min_cores 4 is above max_cores 2"),
        ({"max_cores": 0}, "job 'x': max_cores must be at least 1, got 0"),
    ],
)
def test_states_that_cannot_be(given: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        JobState("x", "a", **given)  # type: ignore[arg-type]
    assert message in str(caught.value)


def test_jobs_that_do_not_fit_the_system() -> None:
    system = system_of(cw.sizes.Deterministic())
    cases = [
        ([JobState("x", "c")], "unknown class 'c'"),
        ([JobState("x", "a"), JobState("x", "b")], "job name 'x' is used twice"),
        ([JobState("x", "a", remaining=2.5)], "remaining work 2.5 is above the largest size of class 'a', 2"),
        ([JobState("x", "a", min_cores=9)], "min_cores 9 is above the 8 cores there are"),
        (["x"], "expected a JobState, got 'x'"),
    ]
    for jobs, message in cases:
        for policy in (JobIndex(), cw.Equi()):
            for whole in (False, True):
                with pytest.raises(InvalidInput, match=message):
                    policy.on(system).allocate_jobs(jobs, whole=whole)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="whole number of cores"):
        JobIndex().on(system_of(LAWS[0], cores=2.5)).allocate_jobs([JobState("x", "a")], whole=True)


def test_policies_that_cannot_be() -> None:
    for given in ({"load": -0.1}, {"load": math.nan}, {"widest": 0.0}, {"longest_wait": 0.0}):
        with pytest.raises(InvalidPolicy):
            JobIndex(**given)  # type: ignore[arg-type]
    system = system_of(LAWS[0])
    unknown = system.with_classes([replace(system.classes[0], arrival_rate=None)])
    with pytest.raises(InvalidInput, match="arrival_rate is not known"):
        JobIndex().on(unknown)
    assert JobIndex(load=0.5).on(unknown).allocate_jobs([JobState("x", "a")]) == {"x": 8.0}


def test_the_long_run_load_may_be_named() -> None:
    system = system_of(LAWS[0])
    assert policy_named("job-index", system) == JobIndex()
    assert policy_named("job-index:0", system) == JobIndex(load=0.0, name="job-index:0")
    assert policy_named("job-index:0.85", system) == JobIndex(load=0.85, name="job-index:0.85")
    for text, message in (
        ("job-index:x", "'job-index:x' needs a long-run load, such as job-index:0.8"),
        ("job-index:-1", r"load must lie in \[0, infinity\), got -1"),
        ("job-index:nan", "load must be finite, got nan"),
    ):
        with pytest.raises(InvalidPolicy, match=message):
            policy_named(text, system)


def test_what_cannot_follow_single_jobs_refuses_the_policy() -> None:
    with pytest.raises(InvalidPolicy, match="job-index decides per job"):
        cw.evaluate(system_of(cw.sizes.Exponential()), JobIndex().on(system_of(LAWS[0])))
    system = cw.load_system("paper:1").at_load(0.5)
    paths = [
        cw.simulate(system, rule, departures=200, rng=1).mean_jobs for rule in (JobIndex(), cw.Whittle())
    ]
    assert paths[0] == paths[1]


# --- tables that fall, and curves by progress ---------------------------------------------------------

FALLING = cw.WholeCoreTable([0, 1, 1.9, 2.7, 3.6, 3.2, 3.5])


@pytest.mark.parametrize("policy", [cw.Equi(), JobIndex(), JobIndex(load=0.0), cw.Whittle()], ids=str)
@pytest.mark.parametrize("whole", [False, True])
def test_cores_beyond_the_peak_stay_idle_or_go_elsewhere(policy: cw.Policy, whole: bool) -> None:
    """A job alone leaves cores idle; beside one with another curve they go to that one."""
    classes = [cw.JobClass("a", 1.0, 1.0, FALLING), cw.JobClass("b", 1.0, 1.0, cw.Amdahl(0.9))]
    bound = policy.on(cw.System(16, classes))
    one, other = JobState("1", "a", remaining=1.0), JobState("2", "b", remaining=1.0)
    own = JobState("3", "b", remaining=1.0, speeds=FALLING.speeds)
    for job in (one, own):
        assert bound.allocate_jobs([job], whole=whole)[job.name] <= 4.0
        both = bound.allocate_jobs([job, other], whole=whole)
        assert both[job.name] <= 4.0 < both["2"]


def test_a_job_that_needs_more_than_its_peak_holds_what_it_needs() -> None:
    system = cw.System(16, [cw.JobClass("a", 1.0, 1.0, FALLING, min_cores=5)])
    for policy in (cw.Equi(), JobIndex()):
        assert policy.on(system).allocate_jobs([JobState("1", "a")], whole=True) == {"1": 5}


def test_max_cores_below_the_peak_cut_the_table() -> None:
    """Up to six cores the peak is at four, up to three it is at two."""
    speeds = [0, 1, 1.9, 1.2, 3.6, 3.2, 3.5]
    system = cw.System(16, [cw.JobClass("a", 1.0, 1.0, cw.Amdahl(0.9))])
    for most, held in ((6, 4), (3, 2)):
        job = JobState("1", "a", speeds=speeds, max_cores=most)
        assert cw.Equi().on(system).allocate_jobs([job], whole=True) == {"1": held}


def test_a_job_has_the_curve_of_its_progress() -> None:
    """Of two jobs with as much before them the one that scales now gets the cores; the other has one."""
    curve = cw.ByProgress([0.0, 0.5], [cw.Amdahl(0.0), cw.Amdahl(0.99)])
    system = cw.System(8, [cw.JobClass("a", 1.0, 1.0, curve, sizes=cw.sizes.Lognormal(1.0))])
    new = JobState("new", "a", remaining=1.0)
    late = JobState("late", "a", attained=3.0, remaining=1.0)
    assert JobIndex(load=0.0).on(system).allocate_jobs([new, late], whole=True) == {"new": 1, "late": 7}
    early = JobState("late", "a", attained=0.9, remaining=1.0)
    assert sum(JobIndex(load=0.0).on(system).allocate_jobs([new, early], whole=True).values()) == 2


def test_progress_of_a_job_that_does_not_say_its_work_is_that_expected() -> None:
    """Exponential: the rest is one mean size whatever was attained; deterministic: the size is known."""
    curve = cw.ByProgress([0.0, 0.5], [cw.Amdahl(0.1), cw.Amdahl(0.9)])
    for sizes, fraction in ((cw.sizes.Exponential(), 3 / 4), (cw.sizes.Deterministic(), 1.0)):
        known = cw.JobClass("a", 1.0, 1.0, curve, sizes=sizes)
        assert progress_of(JobState("1", "a", attained=3.0), known) == pytest.approx(fraction)
        assert progress_of(JobState("1", "a", attained=3.0, remaining=9.0), known) == 0.25
        assert progress_of(JobState("1", "a"), known) == 0.0


def test_exponential_sizes_do_not_hide_progress() -> None:
    """Jobs of a class are not alike where their curves are not."""
    curve = cw.ByProgress([0.0, 0.5], [cw.Amdahl(0.0), cw.Amdahl(0.99)])
    system = cw.System(8, [cw.JobClass("a", 1.0, 1.0, curve)])
    bound = JobIndex().on(system)
    assert not bound.by_counts
    found = bound.allocate_jobs([JobState("new", "a"), JobState("late", "a", attained=3.0)])
    assert found["late"] > 4.0 > found["new"]
