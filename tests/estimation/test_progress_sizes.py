"""Sizes and work left from progress reports: product limits by hand, fractions, censoring, one liar."""

from __future__ import annotations

import math

import numpy as np
import pytest

from corewise.estimation.progress.learned import LearnedClass, LearnedJobs
from corewise.estimation.progress.reports import ReportTally
from corewise.estimation.progress.sizes import SizesSeen
from corewise.kit.arrays import Floats
from corewise.model.sizes import Exponential, Lognormal

NONE = np.empty(0)


def seen(sizes: list[float], reached: list[float] | None = None) -> SizesSeen:
    still = np.sort(np.array(reached or []))
    known = np.sort(np.array(sizes))
    return SizesSeen(known, np.ones(known.size), still, np.ones(still.size))


def naive_remaining(sizes: Floats, reached: Floats, done: float) -> float:
    """∫ P(X > x) dx / P(X > done) by small steps, P from the definition of the product-limit estimate."""

    def survival(x: float) -> float:
        product = 1.0
        for size in np.unique(sizes[sizes <= x]):
            product *= 1.0 - (sizes == size).sum() / ((sizes >= size).sum() + (reached >= size).sum())
        return product if x < 2.0 * max(sizes.max(), reached.max(initial=0.0)) else 0.0

    x = np.linspace(done, 2.0 * max(sizes.max(), reached.max(initial=0.0)), 1001)
    values = np.array([survival(at) for at in x])
    return float(np.trapezoid(values, x) / values[0])


def test_the_work_left_is_that_of_the_product_limit_estimate() -> None:
    """Known and censored sizes, of which none is far from the others."""
    rng = np.random.default_rng(1)
    sizes, reached = rng.uniform(5.0, 15.0, 12), rng.uniform(0.0, 15.0, 8)
    found = seen(sizes.tolist(), reached.tolist())
    for done in (0.0, 4.0, 9.0):
        assert found.remaining(done) == pytest.approx(naive_remaining(sizes, reached, done), rel=8e-3)


def test_before_the_first_size_a_job_is_half_done_where_the_farthest_is() -> None:
    found = seen([], [3.0, 10.0])
    assert found.remaining(10.0) == 10.0
    assert found.remaining(4.0) == 16.0
    assert math.isnan(seen([]).remaining(0.0))


def test_after_the_first_size_others_are_expected_to_have_it() -> None:
    found = seen([8.0], [3.0, 2.0])
    assert found.remaining(3.0) == 5.0
    assert found.remaining(9.0) == 9.0  # which is beyond it


def test_a_fraction_says_the_size_of_its_job_and_of_its_class() -> None:
    """A job at 20 % after 50 of work has 200 before it; one that says no fraction is expected to have 250."""
    tally = ReportTally()
    tally.report("says", "a", cores=1, amount=50.0, seconds=25.0, fraction=0.2)
    tally.report("silent", "a", cores=1, amount=10.0, seconds=5.0)
    learned = LearnedJobs(tally.seen(), 4)["a"]
    assert learned.work(50.0, 0.2).remaining == pytest.approx(100.0)
    assert learned.work(10.0).remaining == pytest.approx(120.0, rel=1e-6)


def test_work_is_seconds_on_one_core_at_the_rates_along_the_way() -> None:
    """Up to 100 at 10 per second, from 200 on at 5; sizes are 400. Bins are a quarter of an octave wide."""
    tally = ReportTally()
    for k in range(40):
        tally.report(f"{k}", "a", cores=1, amount=100.0, seconds=10.0)
        tally.report(f"{k}", "a", cores=1, amount=300.0, seconds=60.0)
        tally.finished(f"{k}")
    learned = LearnedJobs(tally.seen(), 4)["a"]
    left = learned.work(50.0)
    assert left.attained == pytest.approx(5.0, rel=0.1)
    assert left.attained + left.remaining == pytest.approx(70.0, rel=0.1)


def test_sizes_with_their_expected_rest_are_those_that_were_drawn() -> None:
    """Exponential sizes, 400 jobs, half of them still there: the mean residual is 1 at any work.

    The standard error of a mean of some 100 sizes is 0.1; the bound is four of them. The control, sizes of
    completed jobs alone, is far off.
    """
    rng = np.random.default_rng(6)
    sizes, limits = rng.exponential(1.0, 400), rng.uniform(0.0, 3.0, 400)
    done = sizes <= limits
    found = seen(sizes[done].tolist(), limits[~done].tolist())
    for at in (0.0, 0.5, 1.0):
        assert found.remaining(at) == pytest.approx(1.0, abs=0.4)
    assert found.remaining(0.0) == pytest.approx(1.0, abs=0.2)
    assert sizes[done].mean() < 0.8


@pytest.mark.parametrize("absurd", [3.0, 1e9])
def test_one_absurd_size_moves_the_mean_by_no_more_than_its_error(absurd: float) -> None:
    """One of twenty is so many times as large as it was, completed or still there; a clean run beside."""
    sizes = np.exp(np.random.default_rng(3).normal(math.log(10.0), 0.3, 20)).tolist()
    clean = seen(sizes)
    error = float(np.std([10.0 * absurd, *sizes[1:]], ddof=1) / math.sqrt(20.0)) if absurd < 10 else 10.0
    for other in (seen([*sizes[1:], 10.0 * absurd]), seen(sizes[1:], [10.0 * absurd])):
        assert abs(other.remaining(0.0) - clean.remaining(0.0)) <= error
        assert abs(other.remaining(0.0) - clean.remaining(0.0)) < 5.0


# --- distributions -------------------------------------------------------------------------------


def class_of(sizes: Floats, *, still: int = 0) -> LearnedClass:
    """A class at two per second on one core whose first jobs completed; the last ones are half done."""
    tally = ReportTally()
    for k, size in enumerate(sizes):
        done = size if k < sizes.size - still else 0.5 * size
        tally.report(f"{k}", "a", cores=1, amount=done, seconds=0.5 * done)
        if done == size:
            tally.finished(f"{k}")
    return LearnedJobs(tally.seen(), 4)["a"]


def test_sizes_that_are_alike_have_no_distribution_but_one_size() -> None:
    """One of twenty that is three times as large changes nothing; the control, sizes that vary, has one."""
    alike = np.exp(np.random.default_rng(1).normal(math.log(50.0), 0.03, 20))
    assert class_of(alike).size_law is None
    assert class_of(np.append(alike[1:], 150.0)).size_law is None
    assert class_of(np.random.default_rng(1).exponential(50.0, 20)).size_law is not None
    assert class_of(np.random.default_rng(1).exponential(50.0, 4)).size_law is None  # too few to tell


def test_exponential_sizes_are_exponential_with_their_mean() -> None:
    """400 sizes of mean 50, 25 s on one core, some of them half done: 5 % of error, four are allowed."""
    law = class_of(np.random.default_rng(2).exponential(50.0, 400), still=60).size_law
    assert law is not None
    assert law[0] == pytest.approx(25.0, rel=0.2)
    assert isinstance(law[1], Exponential)


def test_sizes_that_vary_more_have_a_hazard_that_falls() -> None:
    sizes = 50.0 * Lognormal(4.0).draw(np.random.default_rng(3), 600)
    law = class_of(sizes).size_law
    assert law is not None
    assert law[0] == pytest.approx(0.5 * np.minimum(sizes, 50.0 * math.e**4).mean(), rel=0.05)
    assert law[1].mean_residual(4.0) > 1.3 * law[1].mean_residual(0.5)
