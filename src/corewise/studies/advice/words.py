"""Advice in plain words: the same sentences for the page and for the terminal."""

from __future__ import annotations

import math

import numpy as np

from corewise.estimation.quantities import Quantity
from corewise.studies.advice.cautions import DOUBTFUL
from corewise.studies.advice.results import Advice, ClassAdvice

__all__ = [
    "cores_in_words",
    "curve_in_words",
    "fit_in_words",
    "gain_in_words",
    "one_more_in_words",
    "percent",
    "sizes_in_words",
]


def percent(share: float) -> str:
    """Return a share in per cent, without the sign of a zero."""
    return f"{round(share, 3) + 0.0:.1%}"


def gain_in_words(advice: Advice) -> str:
    """Return what the best policy would have gained."""
    rows = [row for row in advice.outcomes if row.name != "log"]
    row = min(rows, key=lambda row: row.mean)
    low, high = row.gain_interval
    return (
        f"{percent(row.gain)} less time in the system under {row.label} "
        f"({percent(low)} to {percent(high)}, 95 %)."
    )


def cores_in_words(advice: Advice) -> str:
    """Return how many cores meet the response time of the log."""
    found, there = advice.cores, f"{advice.system.cores:g}"
    if found.cores is None:
        return f"Not even {4 * math.floor(advice.system.cores)} cores would do under {found.label}."
    low, high = found.interval
    sure = f"{high}" if high is not None else "more than four times as many"
    return (
        f"{found.cores} cores under {found.label} give these jobs the mean response time that {there} gave; "
        f"{low if low is not None else found.cores} may do, {sure} do for sure (95 %)."
    )


def one_more_in_words(advice: Advice) -> str:
    """Return what one more core is worth."""
    found = advice.cores
    low, high = found.one_more_interval
    return (
        f"One more core would take {found.one_more:.3g} {advice.times_in} off the mean response time under "
        f"{found.label} ({low:.3g} to {high:.3g}, 95 %)."
    )


def sizes_in_words(row: ClassAdvice) -> str:
    """Return how much sizes differ."""
    spread = row.curve.estimate.dispersion if row.curve.informative and row.curve.estimate else None
    if isinstance(spread, Quantity):
        low, high = spread.interval
        return f"{spread.value:.2g} ({low:.2g} to {high:.2g})"
    return "not known" if math.isnan(row.usage.cv2) else f"{row.usage.cv2:.2g} on that curve"


def curve_in_words(row: ClassAdvice) -> str:
    """Return the curve of a class, and how sure it is or why it is not known."""
    curve = row.curve
    if curve.source == "throughput":
        return f"as measured; the log cannot tell: {curve.reason}"
    if curve.source == "assumed":
        return f"assumed, Amdahl's law with p = 0.9 (0.5 to 0.99); the log cannot tell: {curve.reason}"
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
        return "not tested: its curve is not from the log"
    if math.isnan(row.fit.p_value):
        return "too few jobs to tell"
    if not row.fit.doubtful:
        return "no sign against it"
    said = []
    if row.fit.p_values.get("widths", 1.0) < DOUBTFUL:
        said.append("jobs do not leave at the widths that the curve foretells: rely on it less")
    if row.fit.p_values.get("sizes", 1.0) < DOUBTFUL:
        said.append("sizes are not exponential: allowed for, since the sizes of the log itself were run")
    if min(row.fit.p_values.get("law", 1.0), row.fit.p_values.get("order", 1.0)) < DOUBTFUL:
        said.append("jobs leave in clusters: sizes differ, or something changed on the way")
    return "; ".join(said) or "some doubt"
