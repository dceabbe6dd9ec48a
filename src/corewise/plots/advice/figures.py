"""The figures of a page of advice: load over time, curves with bands, policies, and cores."""

from __future__ import annotations

import numpy as np

from corewise.plots.advice.svg import Chart
from corewise.plots.style import shortened
from corewise.studies.advice.results import Advice, ClassAdvice

__all__ = ["cores_figure", "curve_figure", "load_figure", "policy_figure"]

COLOURS = 6
"""Classes that have a colour of their own; further ones begin again."""

_NODES = 40
_ROW = 34.0  # height of a policy


def load_figure(advice: Advice) -> str:
    """Return the cores that each class held over time, one above the other."""
    usage = advice.usage
    middle = 0.5 * (usage.times[1:] + usage.times[:-1])
    upto = np.cumsum(usage.held, axis=0)
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
    for i, level in enumerate(upto):
        chart.band(middle.tolist(), below.tolist(), level.tolist(), f"fill c{i % COLOURS}")
        below = level
    chart.line([usage.start, usage.end], [usage.cores] * 2, "rule")
    return str(chart)


def curve_figure(advice: Advice, row: ClassAdvice, i: int) -> str:
    """Return the curve of a class with its band, and the widths at which its jobs ran."""
    widest = max(2.0, min(advice.system.cores, 2.0 * row.usage.widths[2]))
    cores = np.linspace(1.0, widest, _NODES)
    speed = row.curve.curve.rate(cores)
    low, high = row.curve.band(cores)
    chart = Chart(
        (0.0, widest),
        (0.0, 1.1 * float(high.max())),
        ("cores of a job", "times faster than on one"),
        f"speed-up of {row.name} against cores, with its 95 % band",
    )
    chart.y_ticks()
    chart.x_ticks()
    seen = np.clip(row.usage.widths, 0.0, widest)
    if np.all(np.isfinite(seen)):
        chart.band([float(seen[0]), float(seen[2])], [0.0, 0.0], [chart.y[1]] * 2, "seen")
    chart.band(cores.tolist(), low.tolist(), high.tolist(), f"band c{i % COLOURS}")
    chart.line(
        cores.tolist(), speed.tolist(), f"curve c{i % COLOURS}" + ("" if row.curve.informative else " dashed")
    )
    chart.text(0.03 * widest, 0.92 * chart.y[1], shortened(row.name), style="name")
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
        "mean response time of each policy on the jobs of the log, with 95 % intervals",
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
    near = [row for row in found.curve if row[1] <= 4.0 * found.target]
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
