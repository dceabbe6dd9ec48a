r"""A speed-up curve from measured throughputs.

A throughput y_k measured on z_k cores is taken to be y_k = a s(z_k; θ) exp(ε_k): the throughput a at one
core, times the speed-up, times an error that is relative and of the same size at every width. For Gaussian ε
the maximum likelihood estimate is where

    Σ_k (log y_k − log a − log s(z_k; θ))²   is least over θ and a,

found globally in each family by `corewise.estimation.throughput.least_squares`.

The scale a is free even where one core was measured. A scale fixed to that measurement would put the curve
through one point exactly and pass its error on to all the others: a first point that is 5 % low would lift
every measured speed-up by 5 %. Free, it is one measurement among n.

Families are compared by the Bayesian information criterion, n log(RSS/n) + k log n with k unknowns (a among
them). A curve with as many unknowns as there are measurements passes through them whatever they are, which is
no evidence: it comes after those that could have failed.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from corewise.errors import CurveMoved, InvalidInput, nearest
from corewise.estimation.concave import FREE, SpeedBand
from corewise.estimation.throughput.free import free_curve, measured_band
from corewise.estimation.throughput.least_squares import Measurements, best_of_family
from corewise.kit import checks
from corewise.kit.arrays import Floats
from corewise.kit.report import Report, Reported, Summarised, Table
from corewise.kit.values import ByValue
from corewise.model.speedup import FAMILIES, SpeedUp, Tabulated, moved_points

__all__ = ["CurveFit", "FamilyFit", "fit_curve", "groups_alike"]

# Relative errors below this are rounding in the data; without a floor, perfect fits would be ranked by it.
_EXACT = 1e-9


_QUICK = ("amdahl", "power")

_NO_BAND = (
    "free has no band: the size of errors is not known, or no concave curve is so near; repeat measurements"
)

_USUAL, _USUAL_WEIGHT = 0.05, 4
"""A usual relative error, and how many measurements it weighs where groups of them are compared."""


@dataclass(frozen=True, eq=False, repr=False)
class FamilyFit(ByValue, Summarised):
    """Least-squares fit of one family of curves to measured throughputs.

    Attributes
    ----------
    curve : SpeedUp
        The curve.
    scale : float
        Throughput at one core.
    error : float
        Root mean square of the residuals of log throughput: the typical relative error.
    criterion : float
        Bayesian information criterion, smaller is better; infinite if there are no more measurements than
        unknowns.

    Examples
    --------
    >>> import corewise as cw
    >>> best = cw.fit_curve([1, 2, 4, 8], [100.0, 181.8, 307.7, 470.6]).candidates[0]
    >>> best.family, {name: round(value, 3) for name, value in best.parameters.items()}
    ('amdahl', {'p': 0.9})
    >>> best.error < 1e-3
    True
    """

    _repr_fields = ("family", "parameters", "scale", "error")
    _exported = (*_repr_fields, "criterion")
    _json_fields = _exported

    curve: SpeedUp
    scale: float
    error: float
    criterion: float

    @property
    def family(self) -> str:
        """The family of the curve; ``free`` if it has none."""
        return FREE if isinstance(self.curve, Tabulated) else self.curve.family

    @property
    def parameters(self) -> dict[str, float]:
        """The parameters of the curve, by name."""
        return self.curve.parameters

    def __str__(self) -> str:
        values = ", ".join(f"{name} = {value:.4g}" for name, value in self.parameters.items())
        if isinstance(self.curve, Tabulated):
            values = ", ".join(f"s({z:.4g}) = {s:.4g}" for z, s in self.curve.points)
        return f"{self.family}: {values}; {self.scale:.4g} at one core, relative error {self.error:.2%}"


@dataclass(frozen=True, eq=False, repr=False)
class CurveFit(ByValue, Reported):
    """Speed-up curves fitted to measured throughputs: one of each family, and the concave majorant.

    Attributes
    ----------
    candidates : tuple of FamilyFit
        The best curve of every family, best family first; `family`, `parameters`, `curve`, `scale` and
        `error` are those of the first.
    majorant : Tabulated
        The least concave majorant of the measured points themselves, those at one width averaged (by the
        geometric mean), over `one_core`. Being a speed-up curve it never exceeds s(z) = z. Its `moved` are
        the points that it does not pass through.
    one_core : float
        The throughput that the majorant takes as one.
    one_core_measured : bool
        Whether that is the mean measured at one core; otherwise it is the scale of the best family.
    notes : tuple of str
        What else there is to know: families left out, points that no curve can match, close calls.
    cores, throughput : ndarray
        The measurements.
    band : SpeedBand or None
        The simultaneous confidence band of a free curve, if one was asked for and the size of errors is
        known; see `corewise.estimation.throughput.free`.

    Examples
    --------
    >>> import corewise as cw
    >>> fit = cw.fit_curve([1, 2, 4, 8], [100.0, 181.8, 307.7, 470.6])
    >>> [candidate.family for candidate in fit.candidates]
    ['amdahl', 'usl', 'power', 'gustafson']
    >>> fit.curve.rate([16]).round(2)
    array([6.4])
    """

    _repr_fields = ("family", "parameters", "error")
    _json_fields = (
        *("family", "parameters", "curve=points", "band", "scale", "error", "n=measurements", "candidates"),
        *("majorant=majorant_values", "notes"),
    )

    candidates: tuple[FamilyFit, ...]
    majorant: Tabulated
    one_core: float
    one_core_measured: bool
    notes: tuple[str, ...]
    cores: Floats = field(compare=False)
    throughput: Floats = field(compare=False)
    band: SpeedBand | None = None

    @property
    def family(self) -> str:
        """The best family."""
        return self.candidates[0].family

    @property
    def parameters(self) -> dict[str, float]:
        """The parameters of the best curve, by name."""
        return self.candidates[0].parameters

    @property
    def curve(self) -> SpeedUp:
        """The best curve."""
        return self.candidates[0].curve

    @property
    def scale(self) -> float:
        """Throughput at one core, according to the best curve."""
        return self.candidates[0].scale

    @property
    def error(self) -> float:
        """Root mean square of the residuals of log throughput about the best curve."""
        return self.candidates[0].error

    @property
    def points(self) -> tuple[tuple[float, float], ...] | None:
        """The points of a curve without a family; None if it has one."""
        return self.curve.points if isinstance(self.curve, Tabulated) else None

    @property
    def majorant_values(self) -> dict[str, object]:
        """The concave majorant: its corners, the throughput at one core, and the points that it moved."""
        return {
            "points": list(zip(*(corners.tolist() for corners in self.majorant.corners), strict=True)),
            "one_core": self.one_core,
            "one_core_measured": self.one_core_measured,
            "moved": self.majorant.moved,
        }

    @property
    def measurements(self) -> int:
        """The number of measurements."""
        return int(self.cores.size)

    def report(self) -> Report:
        """Return the families, best first, the concave majorant, and the notes."""
        source = "measured" if self.one_core_measured else "fitted, as none was measured"
        at, height = (corners[-1] for corners in self.majorant.corners)
        chosen = "by the Bayesian information criterion (BIC)"
        if not math.isfinite(self.candidates[0].criterion):
            chosen = "undecided: every family has as many unknowns as there are measurements"
        one = f"{self.one_core:.4g} at one core ({source})"
        facts = [
            ("best family", f"{self.family}, {chosen}"),
            ("concave majorant", f"speed-up {height:.4g} from {at:g} cores on, over {one}"),
            *([("band", str(self.band))] if self.band else []),
            *(("note", note) for note in self.notes),
        ]
        header = ("family", "relative\nerror", "BIC", "throughput\nat one core", "parameters")
        rows = [
            (
                candidate.family,
                f"{candidate.error:.2%}",
                "-" if math.isinf(candidate.criterion) else f"{candidate.criterion:.2f}",
                f"{candidate.scale:.6g}",
                "\n".join(f"{name} = {value:.6g}" for name, value in candidate.parameters.items())
                or f"{len(self.points or ())} points",
            )
            for candidate in self.candidates
        ]
        widths = f"{self.cores.min():g} to {self.cores.max():g} cores"
        return Report(f"{self.cores.size} measurements on {widths}", facts, [Table(header, rows)])

    def _content(self) -> Sequence[FamilyFit]:
        return self.candidates


def fit_curve(
    cores: Iterable[float],
    throughput: Iterable[float],
    *,
    families: Iterable[str] | None = None,
    family: str | None = None,
    level: float = 0.95,
) -> CurveFit:
    """Fit a speed-up curve to measured throughputs by least squares on the logarithm.

    Parameters
    ----------
    cores : sequence of float
        Cores of each measurement; a width may come more than once, and each measurement counts.
    throughput : sequence of float
        Work done per unit of time on them, in any unit. The throughput at one core need not be among them: it
        is fitted along with the curve, also where it was measured, so that the error of that one measurement
        does not tilt the whole curve.
    families : sequence of str, optional
        Families to try; by default all that have parameters: amdahl, power, gustafson, usl. Any concave curve
        may be asked for as ``free``. It is none of them by default: with a measurement or two at each width
        it passes through their noise, which is no evidence.
    family : str, optional
        The only family to try.
    level : float, optional
        The confidence level of the band of a free curve.

    Raises
    ------
    InvalidInput
        If a number is not positive and finite, or if the measurements carry no information on a curve: fewer
        than two different widths, or none above one core.

    Examples
    --------
    >>> import corewise as cw
    >>> fit = cw.fit_curve([1, 2, 4, 8], [100.0, 181.8, 307.7, 470.6])
    >>> fit.family, round(fit.curve.p, 3)
    ('amdahl', 0.9)
    """
    data = Measurements.of(cores, throughput)
    if family is not None and families is not None:
        raise InvalidInput(f"give family or families, not both; got {family!r} and {families!r}")
    confidence_level = checks.within(level, 0.5, 0.999999, "level")
    notes, candidates, band = [], [], None
    for name in _checked_families(families if family is None else [family]):
        if name == FREE:
            curve = free_curve(data)
            candidates.append(_candidate(data, curve, len(curve.points)))
            band = measured_band(data, confidence_level)
            notes += [] if band else [_NO_BAND]
            continue
        needed = len(FAMILIES[name].bounds) + 1
        if data.widths < needed:
            notes.append(
                f"{name} left out: with its scale it has {needed} unknowns and needs as many different "
                f"numbers of cores (one core or less is one of them), not {data.widths}"
            )
            continue
        candidates.append(_candidate(data, best_of_family(data, FAMILIES[name]), needed))
    if not candidates:
        raise InvalidInput(f"no information: {'; '.join(notes)}")
    candidates.sort(key=_rank)
    best = candidates[0]
    at_one = np.flatnonzero(data.cores == 1.0)
    one_core = math.exp(data.mean_log[at_one[0]]) if at_one.size else best.scale
    speedup = np.exp(data.mean_log - math.log(one_core))
    majorant = _majorant(data.cores, speedup)
    return CurveFit(
        candidates=tuple(candidates),
        majorant=majorant,
        one_core=one_core,
        one_core_measured=bool(at_one.size),
        notes=(*notes, *_doubts(candidates, data), *_unmatched(majorant, data.cores, speedup)),
        cores=data.measured_cores,
        throughput=data.measured_throughput,
        band=band,
    )


def groups_alike(cores: Sequence[float], throughput: Sequence[float], groups: Sequence[str]) -> float:
    """Return the p-value of one curve for all groups of measurements against a curve for each of them.

    By the F test for least squares, with Amdahl's law or a power law for each. Few measurements are met
    exactly, whatever they are; so errors of 5 % are added to those that are seen, and weigh as much as four
    measurements. Groups whose own measurements do not determine a curve are left out; one if there are not
    two others.
    """
    from scipy.special import fdtrc

    parts: dict[str, tuple[list[float], list[float]]] = {}
    for z, y, group in zip(cores, throughput, groups, strict=True):
        part = parts.setdefault(group, ([], []))
        part[0].append(z)
        part[1].append(y)
    telling, fits = [], []
    for part in parts.values():
        try:
            fits.append(fit_curve(*part, families=_QUICK))
        except InvalidInput:
            continue
        telling.append(part)
    if len(fits) < 2:
        return 1.0
    together = fit_curve(*([x for part in telling for x in part[i]] for i in (0, 1)), families=_QUICK)
    squares = [fit.error**2 * fit.cores.size for fit in (*fits, together)]
    unknowns = [len(fit.parameters) + 1 for fit in (*fits, together)]
    apart, more = sum(squares[:-1]), max(sum(unknowns[:-1]) - unknowns[-1], 1)
    freedom = max(together.cores.size - sum(unknowns[:-1]), 0) + _USUAL_WEIGHT
    variance = (apart + _USUAL_WEIGHT * _USUAL**2) / freedom
    return float(fdtrc(more, freedom, max(squares[-1] - apart, 0.0) / more / variance))


def _checked_families(families: Iterable[str] | None) -> list[str]:
    usual = [name for name, family in FAMILIES.items() if family.bounds]
    if families is None:
        return usual
    known = [*usual, FREE]
    try:
        names = [families] if isinstance(families, str) else list(families)
    except TypeError:
        names = []
    if not names:
        raise InvalidInput(f"families must be some of {', '.join(known)}, got {families!r}")
    for name in names:
        if name not in known:
            raise InvalidInput(f"unknown family {name!r}{nearest(str(name), known)}")
    return list(dict.fromkeys(names))


# --- choice -----------------------------------------------------------------------------------


def _candidate(data: Measurements, curve: SpeedUp, unknowns: int) -> FamilyFit:
    n = data.n
    error = math.sqrt((data.scatter + data.squares(curve)) / n)
    criterion = math.inf
    if n > unknowns:
        criterion = 2.0 * n * math.log(max(error, _EXACT)) + unknowns * math.log(n)
    return FamilyFit(curve, math.exp(data.residuals(curve)[1]), error, criterion)


def _rank(candidate: FamilyFit) -> tuple[float, int, float]:
    """Return what to sort by: the criterion up to rounding, then fewer parameters, then the error."""
    return round(candidate.criterion, 9), len(candidate.parameters), max(candidate.error, _EXACT)


def _majorant(cores: Floats, speedup: Floats) -> Tabulated:
    above = cores > 1.0
    with warnings.catch_warnings():  # what is moved is in the notes
        warnings.simplefilter("ignore", CurveMoved)
        return Tabulated([(1.0, 1.0), *zip(cores[above].tolist(), speedup[above].tolist(), strict=True)])


def _doubts(candidates: list[FamilyFit], data: Measurements) -> list[str]:
    """Return notes on what the data do not decide."""
    notes = []
    best = candidates[0]
    saturated = [c.family for c in candidates if math.isinf(c.criterion)]
    if saturated:
        notes.append(
            f"as many unknowns as measurements for {', '.join(saturated)}: a perfect fit would be no "
            f"evidence; measure more"
        )
    notes += [
        f"{c.family}: other parameters fit as well, these numbers of cores do not distinguish them"
        for c in candidates
        if c.parameters and not data.determines(c.curve)
    ]
    # Families meet at their ends (no speed-up, a linear one): they are the same curve then.
    z = np.geomspace(1.0, 2.0 * data.cores[-1], 9)
    others = [c for c in candidates[1:] if not np.allclose(c.curve.rate(z), best.curve.rate(z), rtol=1e-6)]
    # Kass and Raftery, Bayes Factors (1995): a difference below 2 is not worth more than a bare mention.
    close = [c.family for c in others if c.criterion - best.criterion < 2.0]
    if close:
        notes.append(f"the data hardly distinguish {best.family} from {', '.join(close)}: criterion within 2")
    return notes


def _unmatched(majorant: Tabulated, cores: Floats, speedup: Floats) -> list[str]:
    """Return notes on measurements that no speed-up curve can match."""
    notes = []
    if majorant.moved:
        notes.append(f"not concave: the majorant moves {moved_points(majorant.moved)}")
    excess = speedup / cores
    if excess.max() > 1.0 + _EXACT:
        at = cores[excess.argmax()]
        notes.append(
            f"throughput is above linear speed-up, by {excess.max() - 1.0:.2%} at {at:g} cores: not matched, "
            f"curves and majorant end at s(z) = z"
        )
    peak = int(speedup.argmax())
    if speedup[peak:].min() < speedup[peak] * (1.0 - _EXACT):
        notes.append(
            f"throughput falls beyond {cores[peak]:g} cores: not matched, curves stay at their peak as a job "
            f"can leave cores unused"
        )
    return notes
