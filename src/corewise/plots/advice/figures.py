"""The figures of a page of advice: load over time, curves with bands, policies, and cores."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from corewise.kit.arrays import Floats
from corewise.plots.advice.svg import Chart
from corewise.plots.style import shortened
from corewise.studies.advice.curves import ASSUMED, CurveFinding
from corewise.studies.advice.results import Advice, ClassAdvice, interval_in_words

__all__ = [
    "assumed_figure",
    "cores_figure",
    "curve_figure",
    "load_bands",
    "load_figure",
    "policy_figure",
]

_COLOURS = 6  # classes that have a colour of their own

_NODES = 40
_ROW = 34.0  # height of a policy


def load_bands(advice: Advice) -> list[tuple[str, str, Floats]]:
    """Return name, style and cores held over time of the largest classes, and of all others together."""
    jobs = [row.jobs for row in advice.usage.classes]
    order = sorted(range(len(jobs)), key=lambda i: -jobs[i])
    own = order if len(order) <= _COLOURS else order[: _COLOURS - 1]
    bands = [(advice.usage.classes[i].name, f"c{k}", advice.usage.held[i]) for k, i in enumerate(own)]
    if rest := order[len(own) :]:
        bands.append((f"{len(rest)} other classes", "others", advice.usage.held[rest].sum(axis=0)))
    return bands


def load_figure(advice: Advice) -> str:
    """Return the cores that each class held over time, one above the other."""
    usage = advice.usage
    middle = 0.5 * (usage.times[1:] + usage.times[:-1])
    bands = load_bands(advice)
    upto = np.cumsum([held for _, _, held in bands], axis=0)
    top = max(float(upto[-1].max()), usage.cores)
    chart = Chart(
        (usage.start, usage.end),
        (0.0, 1.05 * top),
        (f"time ({advice.times_in})", "cores held"),
        "cores held by each class over time",
    )
    chart.y_ticks()
    chart.x_ticks()
    below = np.zeros(middle.size)
    for (_, style, _), level in zip(bands, upto, strict=True):
        chart.band(middle.tolist(), below.tolist(), level.tolist(), f"fill {style}")
        below = level
    chart.line([usage.start, usage.end], [usage.cores] * 2, "rule")
    return str(chart)


def curve_figure(advice: Advice, row: ClassAdvice, i: int) -> str:
    """Return the curve of a class with its band, and the widths at which its jobs ran."""
    widest = max(2.0, min(advice.system.cores, 2.0 * row.usage.widths[2]))
    return _curve(row.curve, widest, row.name, f"c{i % _COLOURS}", row.usage.widths)


def assumed_figure(advice: Advice) -> str:
    """Return the curve that is assumed, with the range of assumptions."""
    rows = [row for row in advice.classes if row.curve.source == ASSUMED]
    widths = np.array([row.usage.widths[2] for row in rows])
    widest = max(2.0, min(advice.system.cores, 2.0 * float(np.nanmax(widths, initial=1.0))))
    return _curve(rows[0].curve, widest, "assumed", "others", ())


def _curve(found: CurveFinding, widest: float, name: str, style: str, widths: Sequence[float]) -> str:
    cores = np.linspace(1.0, widest, _NODES)
    speed = found.curve.rate(cores)
    low, high = found.band(cores)
    what = "the range of assumptions" if found.source == ASSUMED else "its 95 % band"
    chart = Chart(
        (0.0, widest),
        (0.0, 1.1 * float(high.max())),
        ("cores of a job", "times faster than on one"),
        f"speed-up of {name} against cores, with {what}",
    )
    chart.y_ticks()
    chart.x_ticks()
    seen = np.clip(widths, 0.0, widest)
    if seen.size and np.all(np.isfinite(seen)):
        chart.band([float(seen[0]), float(seen[2])], [0.0, 0.0], [chart.y[1]] * 2, "seen")
    chart.band(cores.tolist(), low.tolist(), high.tolist(), f"band {style}")
    chart.line(cores.tolist(), speed.tolist(), f"curve {style}" + ("" if found.informative else " dashed"))
    chart.text(0.03 * widest, 0.92 * chart.y[1], shortened(name), style="name")
    return str(chart)


def policy_figure(advice: Advice) -> str:
    """Return the mean response time under every policy, with intervals."""
    rows = advice.outcomes
    low = min(row.interval[0] for row in rows)
    high = max(min(row.interval[1], 4.0 * row.mean) for row in rows)
    pad = 0.06 * (high - low)
    chart = Chart(
        (max(low - pad, 0.0), high + pad),
        (-0.6, len(rows) - 0.4),
        (f"mean response time ({advice.times_in})", ""),
        f"mean response time of each policy on the jobs of the log, with its {interval_in_words(advice)}",
        left=92.0,
        height=70.0 + _ROW * len(rows),
    )
    places = list(range(len(rows)))[::-1]
    chart.y_ticks([(float(y), shortened(row.label, 14)) for y, row in zip(places, rows, strict=True)])
    chart.x_ticks()
    for y, row in zip(places, rows, strict=True):
        style = "mark best" if row.name == advice.best else "mark"
        ends = np.clip(row.interval, *chart.x)
        chart.whisker(float(ends[0]), row.mean, float(ends[1]), float(y), style)
    return str(chart)


def cores_figure(advice: Advice) -> str:
    """Return the mean response time against cores, and that of the log as a line."""
    found = advice.cores
    busy = advice.usage.utilisation * advice.usage.cores if advice.assumed else 0.0
    near = [row for row in found.curve if row[1] <= 4.0 * found.target and row[0] >= busy] or found.curve
    cores = [float(row[0]) for row in near]
    chart = Chart(
        (min(cores), max(*cores, min(cores) + 1.0)),
        (0.0, 1.1 * max(min(max(row[3] for row in near), 5.0 * found.target), found.target)),
        ("cores of the pool", f"mean response time ({advice.times_in})"),
        f"mean response time under {found.label} against cores, with that of the log",
    )
    chart.y_ticks()
    chart.x_ticks()
    top = chart.y[1]
    chart.band(cores, [row[2] for row in near], [min(row[3], top) for row in near], "band c0")
    chart.line(cores, [row[1] for row in near], "curve c0")
    chart.line(list(chart.x), [found.target] * 2, "rule")
    chart.text(chart.x[1], found.target, "as in the log ", "end", "name")
    return str(chart)
