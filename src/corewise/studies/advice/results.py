"""Advice from a log: what was found of each class, what policies would have done, and what to know."""

from __future__ import annotations

from dataclasses import dataclass

from corewise.estimation.residuals import GoodnessOfFit
from corewise.kit.report import Summarised, Table
from corewise.kit.unit_labels import time_suffix
from corewise.model.system import System
from corewise.policies.base import BoundPolicy
from corewise.studies.advice.curves import ASSUMED, ASSUMED_RANGE, CurveFinding
from corewise.studies.advice.outcomes import CoresNeeded, PolicyOutcome
from corewise.studies.advice.usage import ClassUsage, Usage

__all__ = ["Advice", "ClassAdvice", "less_time"]

_FEW_NAMES = 3  # classes that a sentence names


@dataclass(frozen=True, eq=False, repr=False)
class ClassAdvice(Summarised):
    """What a log says of one class.

    Attributes
    ----------
    name : str
        The class.
    usage : ClassUsage
        What was seen of it.
    curve : CurveFinding
        Its curve, and how sure that is.
    fit : GoodnessOfFit or None
        Whether it follows the model; None if its curve is not from the log.
    """

    _repr_fields = ("name", "usage", "curve")

    name: str
    usage: ClassUsage
    curve: CurveFinding
    fit: GoodnessOfFit | None

    @property
    def cv2(self) -> float:
        """The squared coefficient of variation of its sizes, NaN if not known."""
        spread = self.curve.estimate.dispersion if self.curve.estimate else None
        return spread.value if spread else self.usage.cv2


@dataclass(frozen=True, eq=False, repr=False)
class Advice(Summarised):
    """Advice from a log.

    Attributes
    ----------
    system : System
        The pool with its classes as they were found, to go on with.
    usage : Usage
        What was observed over time.
    classes : tuple of ClassAdvice
        What was found of each class.
    outcomes : tuple of PolicyOutcome
        Mean response times of the policies on the same jobs, that of the log first.
    best : str
        The policy to go on with.
    policy : BoundPolicy
        The same, made for the system.
    cores : CoresNeeded
        How many cores meet the response time had in the log, and what one more is worth.
    warnings : tuple of str
        What a reader must know before relying on it.
    assumptions : tuple of str
        What is taken to be so.
    unit : str or None
        What times are in, if that was said.
    """

    _repr_fields = ("best", "outcomes", "warnings")

    system: System
    usage: Usage
    classes: tuple[ClassAdvice, ...]
    outcomes: tuple[PolicyOutcome, ...]
    best: str
    policy: BoundPolicy
    cores: CoresNeeded
    warnings: tuple[str, ...]
    assumptions: tuple[str, ...]
    unit: str | None

    def __getitem__(self, policy: str) -> PolicyOutcome:
        """Return the outcome of a policy by name."""
        for row in self.outcomes:
            if row.name == policy:
                return row
        raise KeyError(policy)

    @property
    def times_in(self) -> str:
        """What to say behind a time."""
        return self.unit or "units of time"

    @property
    def assumed(self) -> tuple[str, ...]:
        """The classes whose curve is assumed, since neither the log nor a measurement tells it."""
        return tuple(row.name for row in self.classes if row.curve.source == ASSUMED)

    @property
    def condition(self) -> str:
        """The condition under which the answers hold; empty where no curve is assumed."""
        if not self.assumed:
            return ""
        low, high = (curve.p for curve in ASSUMED_RANGE)
        few = ", ".join(self.assumed) if len(self.assumed) <= _FEW_NAMES else f"{len(self.assumed)} classes"
        whose = "these jobs" if len(self.assumed) == len(self.classes) else f"jobs of {few}"
        return f"if {whose} can be resized and their p lies between {low:g} and {high:g} (Amdahl's law)"

    @property
    def best_policy(self) -> PolicyOutcome:
        """The outcome of the best policy other than that of the log; of the log if there is no other."""
        return min(self.outcomes[1:] or self.outcomes, key=lambda row: row.mean)

    @property
    def verdict(self) -> str:
        """The answer in a sentence."""
        row = self.best_policy
        low, high = row.gain_interval
        if row.name == "log":
            return "No other policy could be compared with what was in force."
        if self.assumed:
            condition = self.condition[0].upper() + self.condition[1:]
            gain = less_time(low, high)
            return f"{condition}, which this log does not tell, sharing by {row.label} takes {gain}."
        if self.best == "log":
            return "No other policy would clearly have been better on these jobs."
        if low > 0.0:
            sure = f"{row.gain:.0%} less time in the system, between {low:.0%} and {high:.0%} (95 %)"
            return f"Sharing by {row.label} would have paid: {sure}."
        return (
            f"Sharing by {row.label} may have paid: {row.gain:.0%} less time in the system, "
            f"but anything from {low:.0%} to {high:.0%} is possible (95 %)."
        )

    def __str__(self) -> str:
        """Return the verdict and the policies."""
        rows = [
            f"  {row.name}: {row.mean:.6g}{time_suffix(self.unit)} "
            f"({row.interval[0]:.6g} to {row.interval[1]:.6g})"
            for row in self.outcomes
        ]
        return "\n".join([self.verdict, *rows, *self.warnings])

    def _table(self) -> Table:
        rows = [(row.name, row.mean, row.interval, row.gain) for row in self.outcomes]
        return Table(("policy", "mean response time", "interval", "gain"), rows)


def less_time(low: float, high: float) -> str:
    """Return a range of gains in words."""
    if high < 0.0:
        return f"between {-high:.0%} and {-low:.0%} more time in the system"
    if low < 0.0:
        return f"anything between {-low:.0%} more and {high:.0%} less time in the system"
    return f"between {low:.0%} and {high:.0%} less time in the system"
