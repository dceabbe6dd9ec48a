r"""Goodness of fit of a log, by time rescaling.

Under the model the jobs of a class leave at rate Σ_jobs μ s(z). Measured by the integral of that rate instead
of the clock, departures are a Poisson process of rate one: the integrals between successive departures, the
*residuals*, are independent and Exp(1), whatever policy was in force. Four things can be seen to be wrong,
and each has a test:

- their distribution is not Exp(1) (Kolmogorov-Smirnov): the level of the rates, or sizes that are not
  exponential;
- successive ones are correlated: the rates drift, or sizes are not exponential;
- departures by width are not as expected (χ²): the curve has another shape;
- the work that jobs had attained when they left is not exponential, where single jobs are recorded
  (`corewise.estimation.exponential_tests`): far sharper, as it looks at each job by itself.

The significance level of all together is held by Bonferroni's inequality. A curve estimated from the
same log fits it better than the truth does: the first test knows by how much
(`corewise.estimation.exponential_tests`), and the third counts its parameters.

Source: E. N. Brown et al., *The time-rescaling theorem and its application to neural spike train data
analysis* (Neural Computation, 2002).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from corewise.errors import InvalidInput
from corewise.estimation.estimates import Estimate, Estimates
from corewise.estimation.exponential_tests import (
    FittedParameters,
    exponential_p_value,
    exponential_sizes_p_value,
    fitted_p_value,
)
from corewise.kit.arrays import Floats
from corewise.kit.frozen import FrozenMapping
from corewise.kit.report import Report, Reported, Table
from corewise.kit.values import ByValue
from corewise.model.job_class import JobClass
from corewise.model.system import System
from corewise.observation.observed import HasPath, path_of
from corewise.observation.rows import STEPS
from corewise.observation.sample_path import EventKind, SamplePath
from corewise.observation.statistics import ClassStatistics

__all__ = ["GoodnessOfFit", "goodness_of_fit"]

_SUSPECT = 0.01
"""Significance level for each class: a log that follows the model is rejected with this probability."""
_LEAST = 20  # residuals, below which nothing is said
_EXPECTED = 10.0  # departures in a group of widths, so that χ² is near its limit
_GROUPS = 30


_FAULTS = {
    "law": "the times between its departures are not as its rates say. Another curve, another size rate, or "
    "sizes that are not exponential?",
    "order": "its departures come in fast and slow stretches. Rates that drift, or sizes that are not "
    "exponential?",
    "widths": "its departures at each number of cores per job are not as the curve says. Another family "
    "(--family auto)?",
    "sizes": "the work that its jobs have done when they leave is not that of exponential sizes",
}
"""What each test finds wrong with the model, in words."""


@dataclass(frozen=True, eq=False, repr=False)
class GoodnessOfFit(ByValue, Reported):
    """Goodness of fit of one class: whether what was seen of it follows the model.

    Attributes
    ----------
    name : str
        The class.
    residuals : ndarray
        The time-rescaled intervals between its departures.
    p_values : mapping
        The p-value of each test that the data allow: ``"law"``, ``"order"``, ``"widths"``, ``"sizes"``.
    p_value : float
        That of all together; NaN if there is too little to say anything.

    Examples
    --------
    >>> import corewise as cw
    >>> system = cw.load_system("paper:1")
    >>> run = cw.simulate(system, "equi", departures=2_000, rng=7, record=True)
    >>> fit = cw.goodness_of_fit(run, system)["one"]
    >>> 0.0 <= fit.p_value <= 1.0, fit.doubtful
    (True, False)
    >>> len(fit.p_values)
    4
    """

    _repr_fields = ("name", "p_value", "doubtful")
    _json_fields = ("p_value", "doubtful", "tests=p_values", "residuals=residuals.size")

    name: str
    residuals: Floats
    p_values: Mapping[str, float]
    p_value: float

    @property
    def doubtful(self) -> bool:
        """Whether the log speaks against the model."""
        return self.p_value < _SUSPECT

    @property
    def verdict(self) -> str:
        """Whether the class follows the model, in words; if not, what the worst of the tests points to."""
        if math.isnan(self.p_value):
            return "too few departures to tell"
        if not self.doubtful:
            return f"no sign against it (p = {self.p_value:.2g})"
        worst = min(self.p_values, key=lambda test: self.p_values[test])
        return f"warning: it does not (p = {self.p_value:.2g}): {_FAULTS[worst]}"

    def report(self) -> Report:
        """Return whether the class follows the model, and the p-values of the tests."""
        table = Table(("test", "p-value"), [(test, f"{p:.3g}") for test, p in self.p_values.items()])
        facts = [("follows the model", self.verdict)]
        return Report(f"Goodness of fit of class {self.name}", facts, [table] if self.p_values else [])

    def _content(self) -> list[dict[str, object]]:
        return [{"name": self.name, "test": test, "p_value": p} for test, p in self.p_values.items()]


def goodness_of_fit(
    path: SamplePath | HasPath,
    system: System,
    estimates: Estimates | None = None,
) -> Mapping[str, GoodnessOfFit]:
    """Test the goodness of fit of the model to a path, class by class.

    Parameters
    ----------
    path : SamplePath, EventLog or Run
        The path, or what has one: a loaded log, or a run that was recorded.
    system : System
        The classes and their curves.
    estimates : Estimates, optional
        What was estimated from the same path: its curves and size rates take the place of the system's.
        Classes without information are left out.

    Examples
    --------
    >>> import corewise as cw
    >>> system = cw.load_system("paper:1")
    >>> run = cw.simulate(system, "equi", departures=2_000, rng=7, record=True)
    >>> fit = cw.goodness_of_fit(run, system)
    >>> fit["one"].doubtful, fit["two"].doubtful
    (False, False)
    """
    seen = path_of(path)
    if list(seen.names) != system.names:
        raise InvalidInput(
            f"the path is of classes {', '.join(seen.names)}; the system has {', '.join(system.names)}"
        )
    known = system if estimates is None else estimates.applied_to(system)
    statistics = seen.statistics
    fits = {}
    for i, job_class in enumerate(known.classes):
        estimate = None if estimates is None else estimates[job_class.name]
        if estimate is not None and not estimate.informative:
            continue
        values = _residuals(seen, i, _speed(job_class))
        fitted = None
        # A free curve without parameters is tested as if it were known, which errs on the side of silence.
        if estimate is not None and (estimate.parameters or estimate.size_rate):
            fitted = _fitted(seen, i, job_class, estimate, statistics.classes[i], values)
        p_values = _p_values(values, statistics.classes[i], job_class, fitted)
        jobs = seen.histories[i]
        of_sizes = math.nan if jobs is None else exponential_sizes_p_value(jobs, job_class.curve)
        if not math.isnan(of_sizes):
            p_values["sizes"] = of_sizes
        together = min(1.0, len(p_values) * min(p_values.values())) if p_values else math.nan
        fits[job_class.name] = GoodnessOfFit(job_class.name, values, FrozenMapping(p_values), together)
    return FrozenMapping(fits)


def _speed(job_class: JobClass) -> Callable[[Floats], Floats]:
    """Return the rate at which a job of a class leaves, as a function of its cores."""
    return lambda z: np.asarray(job_class.known_size_rate * job_class.curve.rate(z))


def _fitted(
    path: SamplePath, i: int, job_class: JobClass, estimate: Estimate, table: ClassStatistics, values: Floats
) -> FittedParameters:
    """Return what of class i was estimated: the parameters of its curve, and the log of its size rate."""
    curve, size_rate = job_class.curve, job_class.known_size_rate
    held = table.widths > 0.0
    speed, gradient = curve.rate(table.widths[held]), curve.gradient(table.widths[held])

    def along(j: int) -> Callable[[Floats], Floats]:
        return lambda z: np.asarray(size_rate * curve.gradient(z)[..., j])

    slopes = [_residuals(path, i, along(j)) for j in range(gradient.shape[1])]
    room = [
        (low - at, high - at)
        for at, (low, high) in zip(estimate.parameters.values(), curve.bounds.values(), strict=True)
    ]
    if estimate.size_rate is not None:
        slopes, room = [*slopes, values], [*room, (-math.inf, math.inf)]
        gradient = np.column_stack([gradient, speed])
    weight = size_rate * table.job_time[held] / (speed * max(values.size, 1))
    return FittedParameters(
        np.stack(slopes, axis=1), np.einsum("k,ki,kj->ij", weight, gradient, gradient), np.array(room).T
    )


def _residuals(path: SamplePath, i: int, speed: Callable[[Floats], Floats]) -> Floats:
    """Return the integral of the departure rate of class i between its successive departures.

    `speed` gives that rate for one job as a function of its cores, or a derivative of it.
    """
    rate = _rates_by_job(path, i, speed) if path.per_job else _rates_by_class(path, i, speed)
    spent = np.concatenate([[0.0], np.cumsum(rate[:-1] * np.diff(path.time))])
    leaves = (path.event == EventKind.DEPARTURE) & (path.job_class == i)
    return np.diff(spent[leaves], prepend=0.0)


def _rates_by_class(path: SamplePath, i: int, speed: Callable[[Floats], Floats]) -> Floats:
    """Return the rate at which jobs of class i leave, from each row to the next."""
    jobs = path.counts[:, i]
    return np.asarray(jobs * speed(path.cores[:, i] / np.maximum(jobs, 1)))


def _rates_by_job(path: SamplePath, i: int, speed: Callable[[Floats], Floats]) -> Floats:
    """Return the same for a path in the per-job form: each row changes the rate by that of its own job."""
    mine = np.flatnonzero(path.owners == i)
    mine = mine[np.argsort(path.job[mine], kind="stable")]
    held = np.where(STEPS[path.event[mine]] < 0, 0.0, path.cores[mine])
    after = speed(held)
    before = np.concatenate([[0.0], after[:-1]])
    before[np.flatnonzero(np.diff(path.job[mine], prepend=-1))] = 0.0
    change = np.zeros(path.time.size)
    change[mine] = after - before
    return np.cumsum(change)


def _p_values(
    values: Floats, table: ClassStatistics, job_class: JobClass, fitted: FittedParameters | None
) -> dict[str, float]:
    """Return the p-values of the tests that the data allow."""
    p_values: dict[str, float] = {}
    if values.size >= _LEAST:
        p_values["law"] = exponential_p_value(values) if fitted is None else fitted_p_value(values, fitted)
        p_values["order"] = _order_test(values)
    shape = _shape_test(table, job_class, 0 if fitted is None else fitted.slopes.shape[1])
    if not math.isnan(shape):
        p_values["widths"] = shape
    return p_values


def _order_test(values: Floats) -> float:
    """Return the p-value of the correlation between successive residuals, as probabilities of Exp(1)."""
    centred = -np.expm1(-values) - 0.5
    pairs = centred[1:] * centred[:-1]
    # Under the model the products have mean zero and variance 1/144, and are uncorrelated.
    z = 12.0 * float(pairs.sum()) / math.sqrt(pairs.size)
    return math.erfc(abs(z) / math.sqrt(2.0))


def _shape_test(table: ClassStatistics, job_class: JobClass, fitted: int) -> float:
    """Return the p-value of departures by width against what the curve expects, in groups of widths."""
    from scipy.special import chdtrc

    expected = job_class.known_size_rate * table.job_time * job_class.curve.rate(table.widths)
    least = max(_EXPECTED, float(expected.sum()) / _GROUPS)
    upto, last = np.cumsum(expected), 0.0
    edges = [0]
    for k in range(expected.size):
        if upto[k] - last >= least:
            edges.append(k + 1)
            last = float(upto[k])
    if len(edges) < 2:
        return math.nan
    # What is left over joins the last group.
    observed, hoped = (np.add.reduceat(column, edges[:-1]) for column in (table.departures, expected))
    freedom = observed.size - fitted
    if freedom < 1:
        return math.nan
    return float(chdtrc(freedom, float(np.sum((observed - hoped) ** 2 / hoped))))
