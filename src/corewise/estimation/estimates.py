"""Estimates of speed-up curves and rates, with standard errors and confidence intervals."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from corewise.errors import InvalidInput
from corewise.estimation.concave import SpeedBand
from corewise.estimation.quantities import Quantity
from corewise.kit.report import Report, Reported, Summarised, Table
from corewise.kit.unit_labels import with_unit
from corewise.kit.values import ByValue, same
from corewise.model.speedup import SpeedUp, Tabulated
from corewise.model.system import System
from corewise.model.tabulated_sizes import PiecewiseExponential

__all__ = ["Candidate", "Estimate", "Estimates"]


@dataclass(frozen=True, eq=False, repr=False)
class Candidate(ByValue, Summarised):
    """Candidate of model selection: a family of curves that was fitted, and the evidence for it.

    Attributes
    ----------
    family : str
        Its name.
    parameters : mapping
        Its most likely parameters.
    log_likelihood : float
        ℓ there.
    bic : float
        The Bayesian information criterion, −2 ℓ + k log n with k parameters and n departures above one core:
        less is better.
    weight : float
        The share exp(−BIC/2) among the candidates: roughly the probability of the family.

    Examples
    --------
    >>> import corewise as cw
    >>> system = cw.load_system("paper:1")
    >>> run = cw.simulate(system, "equi", departures=20_000, rng=7)
    >>> estimate = cw.estimate(run.statistics, system, family="auto")["two"]
    >>> best = max(estimate.candidates, key=lambda candidate: candidate.weight)
    >>> best.family == estimate.family
    True
    """

    _repr_fields = ("family", "parameters", "bic", "weight")

    family: str
    parameters: Mapping[str, float]
    log_likelihood: float
    bic: float
    weight: float


@dataclass(frozen=True, eq=False, repr=False)
class Estimate(ByValue, Reported):
    """Estimate of one class's speed-up curve, by maximum likelihood or for any size distribution.

    Attributes
    ----------
    name : str
        The class.
    family : str
        The family of the curve; ``free`` for a concave curve without one, which is `Tabulated`.
    curve : SpeedUp or None
        The most likely curve; None without information.
    parameters, stderrs, intervals : mapping
        Its parameters by name, their standard errors, and their profile-likelihood intervals; NaN and the
        whole range without information. Where single jobs are recorded, both are clustered by job, and hold
        for sizes of any distribution; else they are from the observed information, for exponential sizes.
    log_likelihood : float
        The exponential ℓ at the estimate, NaN without information.
    departures : int
        How many jobs of the class left.
    at_boundary : bool
        Whether some parameter is at the end of its range.
    informative : bool
        Whether the data say anything about the curve; if not, `note` says why.
    certified : bool
        Whether the estimate is proved to be the global maximum of the exponential likelihood: so for
        one-parameter families, if that is what was maximised.
    arrival_rate, share : Quantity
        The arrival rate, and the class's share of all arrivals.
    size_rate : Quantity or None
        The size rate, if it was to be estimated as well.
    candidates : tuple of Candidate
        The families that were tried, best first, if the data were to choose.
    band : SpeedBand or None
        The simultaneous confidence band of a free curve, which has no parameters.
    note : str
        What else a reader should know, or empty.
    dispersion : Quantity or None
        The squared coefficient of variation (CV²) of the sizes that jobs have on the curve, one if they are
        exponential; None where single jobs are not recorded.
    sizes : str
        Assumption about them: ``"any"`` distribution, or ``"exponential"``.
    size_law : PiecewiseExponential or None
        Their distribution, estimated from strata of attained work, scaled to mean one; None if it was
        assumed.

    Examples
    --------
    >>> import corewise as cw
    >>> system = cw.load_system("paper:1")
    >>> run = cw.simulate(system, "equi", departures=20_000, rng=7)
    >>> estimate = cw.estimate(run.statistics, system)["two"]
    >>> estimate.family, estimate.departures
    ('amdahl', 13008)
    >>> round(estimate.value, 2), round(estimate.stderr, 3)
    (0.8, 0.002)
    >>> estimate.informative, estimate.at_boundary
    (True, False)
    """

    _repr_fields = ("name", "family", "parameters", "departures")
    _json_fields = (
        *("name", "family", "parameters", "curve=points", "band", "stderr=stderrs", "interval=intervals"),
        *("departures", "informative", "at_boundary", "certified", "log_likelihood", "arrival_rate", "share"),
        *("size_rate", "candidates", "note", "sizes", "dispersion"),
    )

    name: str
    family: str
    curve: SpeedUp | None
    parameters: Mapping[str, float]
    stderrs: Mapping[str, float]
    intervals: Mapping[str, tuple[float, float]]
    log_likelihood: float
    departures: int
    at_boundary: bool
    informative: bool
    certified: bool
    arrival_rate: Quantity
    share: Quantity
    size_rate: Quantity | None = None
    candidates: tuple[Candidate, ...] = ()
    band: SpeedBand | None = None
    note: str = ""
    dispersion: Quantity | None = None
    sizes: str = "exponential"
    size_law: PiecewiseExponential | None = None

    @property
    def value(self) -> float:
        """The parameter of a one-parameter curve."""
        return self.parameters[self._only()]

    @property
    def stderr(self) -> float:
        """The standard error of the parameter of a one-parameter curve."""
        return self.stderrs[self._only()]

    @property
    def interval(self) -> tuple[float, float]:
        """The interval of the parameter of a one-parameter curve."""
        return self.intervals[self._only()]

    def _only(self) -> str:
        if len(self.parameters) != 1:
            listed = ", ".join(self.parameters) or "none"
            raise InvalidInput(
                f"class {self.name!r}: {self.family} has not one parameter (it has {listed}); "
                f"use parameters, stderrs and intervals"
            )
        return next(iter(self.parameters))

    @property
    def points(self) -> tuple[tuple[float, float], ...] | None:
        """The points of a free curve; None for a curve of a family."""
        return self.curve.points if isinstance(self.curve, Tabulated) else None

    def _parameter_rows(self, unit: str | None) -> Iterator[tuple[str, ...]]:
        """Yield a row for each parameter; what is the same as above is not repeated."""
        about, left = self.name, f"{self.departures:,}"
        if not self.informative:
            yield (about, self.family, "", "", "no information", left)
            return
        rows = [
            (f"{self.family} {name}", Quantity(value, self.stderrs[name], self.intervals[name]))
            for name, value in self.parameters.items()
        ]
        if self.band and self.curve:
            bounds = zip(self.band.cores, self.band.low, self.band.high, strict=True)
            rows += [
                (f"s({z:.4g})", Quantity(float(self.curve.rate(z)), math.inf, (low, high)))
                for z, low, high in bounds
            ]
        if self.size_rate:
            rows.append((with_unit("size rate", unit), self.size_rate))
        for name, found in rows:
            value, within = _with_interval(found)
            error = f"{found.stderr:.2g}" if math.isfinite(found.stderr) else "-"
            yield (about, name, value, error, within, left)
            about, left = "", ""

    def _notes(self) -> Iterator[str]:
        if not self.informative:
            yield f"no information on its {self.family} curve: {self.note}"
        elif self.note:
            yield self.note
        if self.band:
            yield "a free curve; its intervals hold at all numbers of cores together"
        if self.at_boundary:
            yield f"its most likely {self.family} curve is at the end of the range of its parameters"

    def _evidence_rows(self) -> Iterator[tuple[str, ...]]:
        name = self.name
        for candidate in self.candidates:
            yield (
                name,
                candidate.family,
                "\n".join(f"{key} = {value:.4g}" for key, value in candidate.parameters.items()),
                f"{candidate.log_likelihood:.6g}",
                f"{candidate.bic - self.candidates[0].bic:.4g}",
                f"{candidate.weight:.3g}",
            )
            name = ""

    def report(self) -> Report:
        """Return parameters, arrival rate and the evidence for families, with their intervals."""
        return _report(f"Estimate of class {self.name}", [self], "interval", None)


def _report(title: str, rows: Sequence[Estimate], interval: str, unit: str | None) -> Report:
    parameters = Table(
        ["class", "curve", "estimate", "±\nstderr", interval, "departures"],
        [line for row in rows for line in row._parameter_rows(unit)],
        names=2,
    )
    notes = Table((), [(row.name, note) for row in rows for note in row._notes()], title="Notes")
    rates = Table(
        ["class", with_unit("arrival rate", unit).replace(" (", "\n("), interval, "share", interval],
        [(row.name, *_with_interval(row.arrival_rate), *_with_interval(row.share)) for row in rows],
    )
    evidence = Table(
        ["class", "family", "parameters", "log-likelihood", "BIC above\nthe least", "weight"],
        [line for row in rows for line in row._evidence_rows()],
        names=3,
    )
    tables = [parameters, notes, rates, evidence]
    return Report(title, tables=[table for table in tables if table.rows])


def _with_interval(found: Quantity) -> tuple[str, str]:
    low, high = found.interval
    return "-" if math.isnan(found.value) else f"{found.value:.6g}", f"{low:.4g}–{high:.4g}"


@dataclass(frozen=True, eq=False, repr=False)
class Estimates(ByValue, Reported, Mapping[str, Estimate]):
    """Maximum likelihood estimates of all classes, by name.

    Examples
    --------
    >>> import corewise as cw
    >>> system = cw.load_system("paper:1")
    >>> run = cw.simulate(system, "equi", departures=20_000, rng=7)
    >>> estimates = cw.estimate(run.statistics, system)
    >>> list(estimates)
    ['one', 'two']
    >>> learned = estimates.applied_to(system)
    >>> learned["two"].speedup == estimates["two"].curve
    True
    """

    by_name: Mapping[str, Estimate]
    level: float = 0.95
    unit: str | None = None

    def __getitem__(self, name: str) -> Estimate:
        """Return the estimate of the class of that name."""
        return self.by_name[name]

    def __iter__(self) -> Iterator[str]:
        """Go through the names of the classes."""
        return iter(self.by_name)

    def __len__(self) -> int:
        """Return how many classes there are."""
        return len(self.by_name)

    @property
    def curves(self) -> dict[str, SpeedUp]:
        """The estimated curves of the classes that the data say something about, for `System.with_curves`."""
        return {name: estimate.curve for name, estimate in self.items() if estimate.curve is not None}

    def applied_to(self, system: System) -> System:
        """Return the system with what was estimated: curves, size rates if asked for, arrival rates.

        A class that the data say nothing about keeps its curve, and one that never came its arrival rate.
        """
        classes = []
        for job_class in system.classes:
            estimate = self[job_class.name]
            came = estimate.arrival_rate.value > 0.0  # NaN if the observation has no length
            classes.append(
                replace(
                    job_class,
                    speedup=estimate.curve or job_class.speedup,
                    size_rate=estimate.size_rate.value if estimate.size_rate else job_class.size_rate,
                    arrival_rate=estimate.arrival_rate.value if came else job_class.arrival_rate,
                )
            )
        return system.with_classes(classes)

    @property
    def parameters(self) -> Mapping[str, Mapping[str, float]]:
        """The parameters of every class."""
        return {name: row.parameters for name, row in self.items()}

    @property
    def stderrs(self) -> Mapping[str, Mapping[str, float]]:
        """Their standard errors."""
        return {name: row.stderrs for name, row in self.items()}

    @property
    def intervals(self) -> Mapping[str, Mapping[str, tuple[float, float]]]:
        """Their confidence intervals."""
        return {name: row.intervals for name, row in self.items()}

    @property
    def informative(self) -> Mapping[str, bool]:
        """Whether the data say anything about the curve of a class, by class."""
        return {name: row.informative for name, row in self.items()}

    @property
    def at_boundary(self) -> Mapping[str, bool]:
        """Whether some parameter is at the end of its range, by class."""
        return {name: row.at_boundary for name, row in self.items()}

    def report(self) -> Report:
        """Return parameters, arrival rates and the evidence for families, with their intervals."""
        interval = f"{100.0 * self.level:.6g} % interval"
        return _report("Estimates", [*self.values()], interval, self.unit)

    def _summary(self) -> Mapping[str, object]:
        return {"parameters": self.parameters}

    def __eq__(self, other: object) -> bool:
        """Return whether the other has the same estimates under the same names."""
        return same(dict(self), dict(other)) if isinstance(other, Mapping) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def _values(self) -> Mapping[str, Estimate]:
        return self.by_name

    def _content(self) -> Iterable[Estimate]:
        return self.values()
