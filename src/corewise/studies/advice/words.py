"""Advice in plain words: the same sentences for the page and for the terminal."""

from __future__ import annotations

import math

import numpy as np

from corewise.estimation.quantities import Quantity
from corewise.studies.advice.cautions import DOUBTFUL
from corewise.studies.advice.curves import ASSUMED, ASSUMED_CURVE, FROM_TABLE
from corewise.studies.advice.results import Advice, ClassAdvice, less_time

__all__ = [
    "by_size",
    "cores_in_words",
    "curve_in_words",
    "fit_in_words",
    "gain_in_words",
    "interval_in_words",
    "one_more_in_words",
    "percent",
    "sizes_in_words",
]


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def percent(share: float) -> str:
    """Return a share in per cent, without the sign of a zero."""
    return f"{round(share, 3) + 0.0:.1%}"


def gain_in_words(advice: Advice) -> str:
    """Return the gain of the best policy."""
    row = advice.best_policy
    if row.name == "log":
        return "Not known: no policy could be run on these jobs."
    low, high = row.gain_interval
    if advice.assumed:
        return f"{_capital(less_time(low, high))} under {row.label}, {advice.condition}."
    return (
        f"{percent(row.gain)} less time in the system under {row.label} "
        f"({percent(low)} to {percent(high)}, 95 %)."
    )


def cores_in_words(advice: Advice) -> str:
    """Return how many cores meet the response time of the log."""
    found, there = advice.cores, f"{advice.system.cores:g}"
    if not found.answered:
        return "Not known: see the warnings."
    condition = f", {advice.condition}" if advice.assumed else ""
    if found.cores is None:
        return f"Not even {found.most_tried} cores would do under {found.label}{condition}."
    who = f"{found.cores} cores under {found.label}"
    enough = f"{who} give these jobs the mean response time that {there} gave"
    low, high = found.interval
    if advice.assumed:
        busy = f"{advice.usage.utilisation * advice.usage.cores:.0f}"
        fewer = "fewer may do, but this log does not tell how many" if low is None else f"{low} may do"
        return f"{enough}{condition}; {fewer} ({busy} were busy on average)."
    sure = f"{high}" if high is not None else "more than four times as many"
    return f"{enough}; {low if low is not None else found.cores} may do, {sure} do for sure (95 %)."


def one_more_in_words(advice: Advice) -> str:
    """Return what one more core is worth."""
    found = advice.cores
    if not found.answered:
        return "Not known: see the warnings."
    low, high = found.one_more_interval
    off = f"{advice.times_in} off the mean response time under {found.label}"
    if advice.assumed:
        return f"One more core takes between {low:.3g} and {high:.3g} {off}, {advice.condition}."
    return f"One more core would take {found.one_more:.3g} {off} ({low:.3g} to {high:.3g}, 95 %)."


def interval_in_words(advice: Advice) -> str:
    """Return what the ends beside a number are called."""
    return "range" if advice.assumed else "95 % interval"


def by_size(advice: Advice) -> list[ClassAdvice]:
    """Return the classes, that with most jobs first."""
    return sorted(advice.classes, key=lambda row: -row.usage.jobs)


def sizes_in_words(row: ClassAdvice) -> str:
    """Return how much sizes differ."""
    spread = row.curve.estimate.dispersion if row.curve.informative and row.curve.estimate else None
    if isinstance(spread, Quantity):
        low, high = spread.interval
        return f"{spread.value:.2g} ({low:.2g} to {high:.2g})"
    return "not known" if math.isnan(row.usage.cv2) else f"{row.usage.cv2:.2g} on that curve"


def curve_in_words(row: ClassAdvice) -> str:
    """Return the curve of a class and how sure it is; why the log does not tell it is among the warnings."""
    curve = row.curve
    if curve.source == FROM_TABLE:
        return "as measured"
    if curve.source == ASSUMED:
        return f"assumed, p = {ASSUMED_CURVE.p:g}"
    found = curve.estimate
    assert found is not None
    values = ", ".join(
        f"{name} = {value:.3g} ({found.intervals[name][0]:.3g} to {found.intervals[name][1]:.3g})"
        for name, value in found.parameters.items()
    )
    width = row.usage.widths[1]
    low, high = (float(end[0]) for end in curve.band(np.array([width])))
    speed = (
        f"{float(curve.curve.rate(width)):.3g} times faster on {width:.3g} cores ({low:.3g} to {high:.3g})"
    )
    weight = curve.weights.get(found.family, 1.0)
    return (
        f"{found.family} {values}; {speed}; {weight:.0%} sure of the family"
        if values
        else f"{found.family}; {speed}"
    )


def fit_in_words(row: ClassAdvice) -> str:
    """Return whether a class follows the model, and what it means where it does not."""
    if row.fit is None:
        return "not tested"
    if math.isnan(row.fit.p_value):
        return "too few jobs to tell"
    if not row.fit.doubtful:
        return "no sign against it"
    said = []
    if row.fit.p_values.get("widths", 1.0) < DOUBTFUL:
        said.append("jobs do not leave at the widths that the curve predicts: rely on it less")
    if row.fit.p_values.get("sizes", 1.0) < DOUBTFUL:
        said.append("sizes are not exponential: allowed for, since the sizes of the log itself were run")
    if min(row.fit.p_values.get("law", 1.0), row.fit.p_values.get("order", 1.0)) < DOUBTFUL:
        said.append("jobs leave in clusters: sizes differ, or something changed on the way")
    return "; ".join(said) or "some doubt"
