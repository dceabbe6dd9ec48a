"""The scheduler in line: exploration, decisions, explanations, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pytest

import corewise as cw

PAUSE, INTERVAL = 3.0, 6.0


@dataclass(eq=False)
class Work:
    """A job of the naive simulator below: its curve by progress in two halves."""

    name: str
    job_class: str
    came: float
    size: float
    halves: tuple[float, float]
    done: float = 0.0
    cores: int = 0
    resumes: float = 0.0
    ended: float = np.nan

    def run(self, begin: float, end: float) -> float:
        """Return the work done between two times, in steps short enough not to matter."""
        before = self.done
        for time in np.arange(begin, end, INTERVAL / 60.0):
            if self.cores and time >= self.resumes and np.isnan(self.ended):
                p = self.halves[int(2.0 * self.done >= self.size)]
                self.done += INTERVAL / 60.0 / ((1.0 - p) + p / self.cores)
                if self.done >= self.size:
                    self.done, self.ended = self.size, time + INTERVAL / 60.0
        return self.done - before


Lie = Callable[[Work, float], tuple[float, float | None]]
KINDS = {"short": (20.0, (0.7, 0.9)), "long": (400.0, (0.95, 0.98)), "serial": (60.0, (0.0, 0.0))}


def workload(seed: int) -> list[Work]:
    """Return 80 jobs of three classes within 600 seconds: at first more than the cores can do."""
    rng = np.random.default_rng(seed)
    names = rng.choice(list(KINDS), 80, p=[0.5, 0.2, 0.3])
    times = np.sort(rng.uniform(0.0, 600.0, 80))
    return [
        Work(f"{name}-{k}", str(name), float(time), *KINDS[str(name)])
        for k, (name, time) in enumerate(zip(names, times, strict=True))
    ]


def mean_response(scheduler: cw.Scheduler, jobs: list[Work], lie: Lie | None = None) -> float:
    """Return the mean response time of a workload; every job reports its progress at every interval.

    A lie changes what some job says of the work it did and of the fraction that is done.
    """
    time, waiting, present = 0.0, list(jobs), list[Work]()
    while waiting or present:
        while waiting and waiting[0].came <= time:
            job = waiting.pop(0)
            present.append(job)
            scheduler.arrived(job.name, job.job_class, job.came)
        decided = scheduler.decide(time)
        assert set(decided) == {job.name for job in present}
        assert sum(decided.values()) <= 16
        for job in present:
            if job.cores != decided[job.name]:
                job.cores, job.resumes = decided[job.name], time + PAUSE
                scheduler.held(job.name, job.cores, time)
        for job in present:
            amount = job.run(time, time + INTERVAL)
            until = time + INTERVAL if np.isnan(job.ended) else job.ended
            said = (amount, None) if lie is None else lie(job, amount)
            scheduler.progress(job.name, until, said[0], fraction=said[1])
            if not np.isnan(job.ended):
                scheduler.finished(job.name, job.ended)
        present = [job for job in present if np.isnan(job.ended)]
        time += INTERVAL
    return float(np.mean([job.ended - job.came for job in jobs]))


def test_the_index_learned_from_nothing_beats_equal_shares() -> None:
    """On each of two days; EQUI, with the same reports, is the control."""
    for seed in (12, 13):
        learned, equal = (
            mean_response(cw.Scheduler(16, pause=PAUSE, policy=policy), workload(seed))
            for policy in (cw.JobIndex(load=0.0), "equi")
        )
        assert learned < 0.95 * equal


def test_the_same_reports_lead_to_the_same_decisions() -> None:
    one, other = (mean_response(cw.Scheduler(16, pause=PAUSE), workload(3)[:20]) for _ in range(2))
    assert one == other


def tripled(job: Work, amount: float) -> tuple[float, float | None]:
    """Return three times the work of the eighth job."""
    return (3.0 if job.name.endswith("-7") else 1.0) * amount, None


def going_back(job: Work, amount: float) -> tuple[float, float | None]:
    """Return the fraction that is done, of every eighth job now and then one from before."""
    fraction = job.done / job.size
    back = int(job.name.partition("-")[2]) % 8 == 0 and int(job.done) % 2 == 0
    return amount, 0.5 * fraction if back else fraction


@pytest.mark.parametrize("lie", [tripled, going_back])
def test_reports_that_lie_cost_little(lie: Lie) -> None:
    """By a job that triples its work, or every eighth one whose fraction goes back: at most a tenth."""
    clean = mean_response(cw.Scheduler(16, pause=PAUSE), workload(12)[:30])
    scheduler = cw.Scheduler(16, pause=PAUSE)
    assert mean_response(scheduler, workload(12)[:30], lie) < 1.1 * clean
    if lie is going_back:
        assert scheduler.report().odd["fractions that go back"] > 0


def test_a_class_that_appears_late_is_learned_beside_the_others() -> None:
    scheduler = one_class(cw.Scheduler(16), 5.0)
    scheduler.arrived("late", "b", 3.0 * 86400.0)
    assert scheduler.decide(3.0 * 86400.0) == {"late": 1}
    scheduler.held("late", 1, 3.0 * 86400.0)
    scheduler.progress("late", 3.0 * 86400.0 + 1.0, 7.0)
    assert scheduler.decide(3.0 * 86400.0 + 1.0) == {"late": 2}
    assert [row.arrived for row in scheduler.report().classes] == [4, 1]


def test_a_class_is_explored_from_one_core_by_doubling() -> None:
    scheduler = cw.Scheduler(64)
    scheduler.arrived("a", "one", 0.0)
    widths = []
    for time in range(8):
        cores = scheduler.decide(float(time))["a"]
        widths.append(cores)
        scheduler.held("a", cores, float(time))
        scheduler.progress("a", time + 1.0, 100.0 * cores)
    assert widths == [1, 2, 4, 8, 16, 32, 64, 64]


def test_a_class_that_never_reports_shares_equally() -> None:
    scheduler = cw.Scheduler(8)
    scheduler.arrived("a", "silent", 0.0)
    scheduler.arrived("b", "silent", 0.0)
    for time in range(3):
        decided = scheduler.decide(float(time))
        for job, cores in decided.items():
            scheduler.held(job, cores, float(time))
    assert scheduler.decide(3.0) == {"a": 4, "b": 4}
    assert "reports no progress" in scheduler.explain("a")


def test_jobs_of_unknown_classes_get_their_share_beside_known_ones() -> None:
    scheduler = cw.Scheduler(8)
    scheduler.arrived("a", "known", 0.0)
    for time in range(4):
        scheduler.held("a", scheduler.decide(float(time))["a"], float(time))
        scheduler.progress("a", time + 1.0, 10.0 * scheduler.decide(time + 0.5)["a"])
    scheduler.arrived("b", "new", 4.0)
    decided = scheduler.decide(4.0)
    assert decided["b"] == 1
    assert decided["a"] == 7
    assert "has not reported progress yet" in scheduler.explain("b")
    assert scheduler.explain("a").startswith("7 cores of class known, which was seen on 8 cores at most")


def test_limits_of_jobs_and_classes_hold() -> None:
    scheduler = cw.Scheduler(8, [cw.JobClass("two", speedup=cw.Amdahl(0.9), max_cores=2)])
    scheduler.arrived("a", "two", 0.0)
    scheduler.arrived("b", "other", 0.0, min_cores=3, max_cores=3)
    for time in range(5):
        decided = scheduler.decide(float(time))
        assert decided["a"] <= 2
        assert decided["b"] in (0, 3)
        for job, cores in decided.items():
            scheduler.held(job, cores, float(time))
            scheduler.progress(job, time + 1.0, float(cores))
    assert decided == {"a": 2, "b": 3}


def test_explanation_before_a_decision_says_so() -> None:
    scheduler = cw.Scheduler(8)
    scheduler.arrived("a", "one", 0.0)
    assert scheduler.explain("a") == "nothing has been decided since job 'a' came"


def a_job() -> cw.Scheduler:
    scheduler = cw.Scheduler(8)
    scheduler.arrived("a", "one", 0.0)
    scheduler.held("a", 2, 1.0)
    scheduler.progress("a", 2.0, 1.0, fraction=0.5)
    return scheduler


BAD: Mapping[str, tuple[Callable[[cw.Scheduler], object], str]] = {
    "fraction above one": (lambda s: s.progress("a", 3.0, 1.0, fraction=1.5), "fraction must lie in"),
    "fraction nan": (lambda s: s.progress("a", 3.0, 1.0, fraction=np.nan), "fraction must be finite"),
    "negative amount": (lambda s: s.progress("a", 3.0, -1.0), "amount of work must lie in .*got -1.0"),
    "unknown job": (lambda s: s.progress("aa", 3.0, 1.0), "no job 'aa' is there.*'a'"),
    "cores not whole": (lambda s: s.held("a", 1.5, 3.0), "cores must be a whole number"),  # type: ignore[arg-type]
    "negative cores": (lambda s: s.held("a", -1, 3.0), "cores must be at least 0"),
    "name twice": (lambda s: s.arrived("a", "one", 3.0), "job name 'a' is used twice"),
    "limits": (lambda s: s.arrived("b", "one", 3.0, min_cores=3, max_cores=2), "min_cores 3 is above"),
    "too many": (lambda s: s.arrived("b", "one", 3.0, min_cores=9), "above the 8 cores there are"),
    "remaining": (lambda s: s.arrived("b", "one", 3.0, remaining=-1.0), "remaining must be positive"),
    "class": (lambda s: s.arrived("b", "a,b", 3.0), "may not hold a comma"),
    "why": (lambda s: s.ended("a", 3.0, "bored"), "why must be one of failed, cancelled, lost"),
    "time": (lambda s: s.decide(np.inf), "time must be finite"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_is_refused_with_its_value(case: str) -> None:
    wrong, message = BAD[case]
    scheduler = a_job()
    before = scheduler.report()
    with pytest.raises(cw.CorewiseError, match=message):
        wrong(scheduler)
    assert scheduler.report() == before


def test_what_is_odd_is_taken_in_counted_and_said() -> None:
    scheduler = a_job()
    scheduler.progress("a", 3.0, 1.0, fraction=0.4)
    scheduler.progress("a", 2.5, 1.0)
    scheduler.held("a", 0, 4.0)
    scheduler.progress("a", 5.0, 1.0)
    report = scheduler.report()
    assert report.odd == {
        "fractions that go back": 1,
        "dated before the last report of their job": 1,
        "progress of jobs that hold no cores": 1,
    }
    assert "1 reports: fractions that go back" in str(report)


def one_class(scheduler: cw.Scheduler, rate: float, jobs: int = 4) -> cw.Scheduler:
    """Run jobs of one class with p = 0.9 one after the other, each of them 100 units of work."""
    time = 0.0
    for k in range(jobs):
        scheduler.arrived(f"job {k}", "a", time)
        done = 0.0
        while done < 100.0:
            cores = scheduler.decide(time)[f"job {k}"]
            scheduler.held(f"job {k}", cores, time)
            amount = min(rate / (0.1 + 0.9 / cores), 100.0 - done)
            time += amount / (rate / (0.1 + 0.9 / cores))
            done += amount
            scheduler.progress(f"job {k}", time, amount)
        scheduler.finished(f"job {k}", time)
    return scheduler


def test_history_is_a_prior_from_the_first_decision_on() -> None:
    seen = one_class(cw.Scheduler(16), 5.0).seen
    for history in (seen, seen.as_mapping()):
        scheduler = cw.Scheduler(16, history=history)
        scheduler.arrived("a", "a", 0.0)
        assert scheduler.decide(0.0) == {"a": 16}
        assert not one_class(scheduler, 5.0).report().changed


def test_history_is_dropped_where_the_present_contradicts_it() -> None:
    seen = one_class(cw.Scheduler(16), 5.0).seen
    report = one_class(cw.Scheduler(16, history=seen), 2.5).report()
    assert report.changed == ("a",)
    assert "class a is not as it was" in str(report)
    with pytest.raises(cw.errors.InvalidInput, match="history must be what"):
        cw.Scheduler(16, history=7)  # type: ignore[arg-type]


def test_a_job_that_ends_leaves_nothing_behind() -> None:
    scheduler = a_job()
    scheduler.ended("a", 3.0, "cancelled")
    assert scheduler.decide(3.0) == {}
    (row,) = scheduler.report().classes
    assert (row.jobs, row.arrived, row.finished) == (0, 1, 0)


def test_sizes_that_vary_are_a_distribution_not_a_size() -> None:
    """Jobs of exponential sizes, one of them nearly done by its mean: they share equally, as is best.

    The control, jobs of one size, are served by what each has before it.
    """
    shares = {}
    for varied in (True, False):
        sizes = np.random.default_rng(5).exponential(50.0, 60) if varied else np.full(60, 50.0)
        scheduler = cw.Scheduler(8)
        time = 0.0
        for k, size in enumerate(sizes):
            scheduler.arrived(f"{k}", "a", time)
            scheduler.held(f"{k}", 1 + k % 8, time)
            time += float(size) / (1 + k % 8) ** 0.9
            scheduler.progress(f"{k}", time, float(size))
            scheduler.finished(f"{k}", time)
        for name, done in (("new", 1.0), ("old", 45.0)):
            scheduler.arrived(name, "a", time)
            scheduler.held(name, 1, time)
            scheduler.progress(name, time + 10.0, done)
        shares[varied] = scheduler.decide(time + 10.0)
    assert shares[True] == {"new": 4, "old": 4}
    assert shares[False]["old"] > shares[False]["new"]
