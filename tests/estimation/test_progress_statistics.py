"""Statistics of progress reports: they add, stay bounded, and go through plain values."""

from __future__ import annotations

import json

import numpy as np
import pytest

from corewise.errors import InvalidInput
from corewise.estimation.progress.reports import ABSURD, GONE_BACK, ReportTally
from corewise.estimation.progress.statistics import MOST_ROWS, ProgressStatistics


def tally_of(
    rng: np.random.Generator, jobs: int, *, prefix: str = "job", tally: ReportTally | None = None
) -> ReportTally:
    """Jobs of two classes that report ten times each on one to four cores; one in three is there at last."""
    tally = tally or ReportTally()
    for k in range(jobs):
        name, job_class = f"{prefix} {k}", "a" if k % 2 else "b"
        for _ in range(10):
            cores = int(rng.integers(1, 5))
            amount = 60.0 * cores**0.8 * float(np.exp(0.1 * rng.normal()))
            tally.report(name, job_class, cores=cores, amount=amount, seconds=60.0)
        if k % 3 == 0:
            tally.finished(name)
        elif k % 3 == 1:
            tally.ended(name)
    return tally


def totals(seen: ProgressStatistics) -> dict[str, float]:
    return {
        f"{name} {what}": float(total)
        for name, of in seen.classes.items()
        for what, total in enumerate([*of.rates.sums.sum(axis=0), *of.sizes.sums.sum(axis=0)])
    }


def test_statistics_of_parts_add_to_those_of_the_whole() -> None:
    """As for `Statistics`: of(a) + of(b) = of(a followed by b), here of the jobs of two tallies."""
    one = tally_of(np.random.default_rng(1), 30, prefix="one").seen()
    other = tally_of(np.random.default_rng(2), 40, prefix="other").seen()
    after = tally_of(np.random.default_rng(2), 40, prefix="other", tally=ReportTally(one)).seen()
    for made in (other + one, after):
        for name, of in (one + other).classes.items():
            assert np.array_equal(made[name].rates.keys, of.rates.keys)
            assert made[name].rates.sums == pytest.approx(of.rates.sums)
            assert made[name].sizes.sums == pytest.approx(of.sizes.sums)


def test_reports_are_counted_by_hand() -> None:
    """Three reports of one job: two in one stretch, one on other cores; its size is all that it did."""
    tally = ReportTally()
    tally.report("j", "a", cores=2, amount=90.0, seconds=60.0)
    tally.report("j", "a", cores=2, amount=10.0, seconds=10.0)
    tally.report("j", "a", cores=4, amount=50.0, seconds=20.0)
    tally.report("j", "a", cores=None, amount=30.0, seconds=60.0)  # it changed its cores meanwhile
    tally.finished("j")
    seen = tally.seen()["a"]
    middles = [45.0, 95.0, 125.0]  # the second report lies in another quarter of an octave
    assert seen.rates.keys[:, 1].tolist() == np.floor(4.0 * np.log2(middles)).tolist()
    assert seen.rates.keys[:, 2].tolist() == [2, 2, 4]
    assert seen.rates.sums.tolist() == [[1.0, 90.0, 60.0], [1.0, 10.0, 10.0], [1.0, 50.0, 20.0]]
    assert seen.sizes.sums.tolist() == [[1.0, 180.0]]


def test_reports_of_one_stretch_count_as_one() -> None:
    """The first is half way to 1000, an octave below; the others lie in one quarter of an octave."""
    tally = ReportTally()
    tally.report("j", "a", cores=2, amount=1100.0, seconds=660.0)
    for _ in range(5):
        tally.report("j", "a", cores=2, amount=10.0, seconds=6.0)
    assert tally.seen()["a"].rates.sums.tolist() == [[1.0, 1100.0, 660.0], [1.0, 50.0, 30.0]]


def test_plain_values_give_the_same_statistics_and_the_same_tally() -> None:
    tally = tally_of(np.random.default_rng(5), 25)
    seen = tally.seen()
    assert ProgressStatistics.from_mapping(json.loads(json.dumps(seen.as_mapping()))) == seen
    again = ReportTally.of(json.loads(json.dumps(tally.snapshot())))
    for one in (tally, again):
        one.report("late", "a", cores=3, amount=5.0, seconds=2.0)
        one.report("job 2", "b", cores=3, amount=5.0, seconds=2.0)
        one.finished("job 2")
    assert totals(again.seen()) == pytest.approx(totals(tally.seen()))


@pytest.mark.parametrize("wrong", [{}, {"a": {}}, {"a": {"rates": 3, "sizes": 4}}, {"a": None}, 7])
def test_plain_values_that_are_none_are_refused(wrong: object) -> None:
    if wrong == {}:
        assert ProgressStatistics.from_mapping({}).classes == {}
        return
    with pytest.raises(InvalidInput, match="cannot be read"):
        ProgressStatistics.from_mapping(wrong)  # type: ignore[arg-type]


def test_memory_is_bounded_and_keeps_counts_work_and_time() -> None:
    """Rates and progress over sixty octaves would make some 15 000 rows."""
    rng, tally = np.random.default_rng(9), ReportTally()
    work = 0.0
    for k in range(8_000):
        amount = float(np.exp2(rng.uniform(-30.0, 30.0)))
        tally.report(f"j{k}", "a", cores=int(rng.integers(1, 33)), amount=amount, seconds=2.0)
        tally.finished(f"j{k}")
        work += amount
    seen = tally.seen()["a"]
    assert len(seen.rates.keys) <= MOST_ROWS
    assert len(seen.sizes.keys) <= MOST_ROWS
    assert seen.rates.merged > 0
    assert seen.rates.sums.sum(axis=0) == pytest.approx([8_000.0, work, 16_000.0])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"amount": -1.0}, "job 'j': amount of work must lie in"),
        ({"amount": float("nan")}, "job 'j': amount of work must be finite"),
        ({"seconds": -2.0}, "job 'j': time must lie in"),
        ({"fraction": 1.2}, "job 'j': fraction must lie in"),
        ({"fraction": "half"}, "job 'j': fraction must be a number"),
    ],
)
def test_reports_that_are_none_are_refused_with_the_value(wrong: dict[str, object], message: str) -> None:
    tally = ReportTally()
    values: dict[str, object] = {"cores": 1, "amount": 1.0, "seconds": 1.0, **wrong}
    with pytest.raises(InvalidInput, match=message):
        tally.report("j", "a", **values)  # type: ignore[arg-type]
    assert not tally.jobs


def test_a_job_of_another_class_is_refused() -> None:
    tally = ReportTally()
    tally.report("j", "a", cores=1, amount=1.0, seconds=1.0)
    with pytest.raises(InvalidInput, match="job 'j' is of class 'a', not of 'b'"):
        tally.report("j", "b", cores=1, amount=1.0, seconds=1.0)


def test_a_fraction_that_goes_back_is_counted_and_not_believed() -> None:
    tally = ReportTally()
    tally.report("j", "a", cores=1, amount=50.0, seconds=60.0, fraction=0.5)
    tally.report("j", "a", cores=1, amount=10.0, seconds=12.0, fraction=0.1)
    assert tally.odd == {"a": {GONE_BACK: 1}}
    assert tally.jobs["j"].fraction == 0.5


def test_absurd_work_is_counted_and_not_believed() -> None:
    """A million times what its class does; before the class is known there is nothing to tell that by."""
    tally = ReportTally()
    for k in range(12):
        tally.report(f"j{k}", "a", cores=1 + k % 4, amount=50.0, seconds=60.0)
    seen = tally.seen()
    tally.report("j1", "a", cores=2, amount=5e7, seconds=60.0)
    assert tally.odd == {"a": {ABSURD: 1}}
    assert tally.seen() == seen
    assert tally.jobs["j1"].done == 50.0
    tally.report("j1", "a", cores=2, amount=150.0, seconds=60.0)  # three times as fast is another matter
    assert tally.jobs["j1"].done == 200.0
    tally.report("new", "b", cores=1, amount=5e7, seconds=60.0)
    assert tally.jobs["new"].done == 5e7
