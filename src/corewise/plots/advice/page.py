"""The page of advice: one file of HTML, for any width of screen, light and dark, without scripts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape

from corewise.errors import printable
from corewise.kit.numbers import rounded
from corewise.kit.report import Table, html_page, html_table
from corewise.plots.advice.figures import (
    assumed_figure,
    cores_figure,
    curve_figure,
    load_bands,
    load_figure,
    policy_figure,
)
from corewise.plots.advice.style import STYLE
from corewise.studies.advice.cautions import listed
from corewise.studies.advice.curves import ASSUMED, ASSUMED_CURVE, ASSUMED_RANGE
from corewise.studies.advice.outcomes import percent
from corewise.studies.advice.results import (
    Advice,
    ClassAdvice,
    by_size,
    cores_in_words,
    curve_in_words,
    fit_in_words,
    gain_in_words,
    interval_in_words,
    one_more_in_words,
    sizes_in_words,
)

__all__ = ["advice_page"]

_SHOWN = 12  # classes in a table, and with a figure; further ones are folded


def advice_page(advice: Advice, title: str, files: Iterable[tuple[str, str]] = ()) -> str:
    """Return the page; `files` are the names of what was written beside it, and what each is."""
    parts = [
        f"<h1>{_text(title)}</h1>",
        f'<p class="verdict">{_text(advice.verdict)}</p>',
        _cards(advice),
        _warned(advice),
        _policies(advice),
        _observed(advice),
        _classes(advice),
        _dependence(advice),
        _cores(advice),
        _listed("Assumptions", advice.assumptions),
        _files(files),
    ]
    return html_page(title, STYLE, "\n".join(filter(None, parts)))


def _text(text: str) -> str:
    return escape(printable(text))


def _cards(advice: Advice) -> str:
    cards = [
        ("Estimated gain from reallocation", gain_in_words(advice)),
        ("Cores for the response time of the log", cores_in_words(advice)),
        ("One more core", one_more_in_words(advice)),
    ]
    rows = (f'<div class="card"><h3>{_text(name)}</h3><p>{_text(said)}</p></div>' for name, said in cards)
    return f'<div class="cards">{"".join(rows)}</div>'


def _warned(advice: Advice) -> str:
    if not advice.warnings:
        return ""
    rows = "".join(f"<li>{_text(line)}</li>" for line in advice.warnings)
    return f'<section class="warned"><h2>Before you rely on it</h2><ul>{rows}</ul></section>'


def _policies(advice: Advice) -> str:
    ends, assumed = interval_in_words(advice), f" (p = {ASSUMED_CURVE.p:g})" if advice.assumed else ""
    times = f"mean response time ({advice.times_in})"
    header = ["policy", times, ends, f"less time than the log{assumed}", ends]
    rows = []
    for row in advice.outcomes:
        log = row.name == "log"
        rows.append(
            [
                row.label,
                rounded(row.mean),
                _interval(row.interval),
                "" if log else percent(row.gain),
                "" if log else " to ".join(map(percent, row.gain_interval)),
            ]
        )
    text = "Every policy was run on the same jobs, at the same times and with the same sizes as in the log. "
    if advice.assumed:
        low, high = (curve.p for curve in ASSUMED_RANGE)
        text += f"Ranges are for p from {low:g} to {high:g}, and for the random variation of which jobs came."
    else:
        text += "Intervals hold the random variation of which jobs came, and the uncertainty of the curves."
    places = {name: i for i, name in enumerate(advice.system.names)}
    by_class = _class_table(
        ["class", *(f"{row.label} ({advice.times_in})" for row in advice.outcomes)],
        [
            [row.name, *(rounded(outcome.by_class[places[row.name]]) for outcome in advice.outcomes)]
            for row in by_size(advice)
        ],
    )
    return (
        f"<section><h2>Policies on these jobs</h2><p>{_text(text)}</p>"
        f"<figure>{policy_figure(advice)}</figure>{_table(header, rows)}"
        f"<h3>Mean response time by class</h3>{by_class}</section>"
    )


def _observed(advice: Advice) -> str:
    usage, unit = advice.usage, advice.times_in
    header = ["class", "jobs", "done", "failed", "there at the end", f"mean response time ({unit})"]
    header += [
        f"95 % stay below ({unit})",
        f"without cores ({unit})",
        "cores of a job (10 %, 50 %, 90 % of its time)",
    ]
    rows = [
        [
            row.name,
            f"{row.jobs:,}",
            f"{row.done:,}",
            f"{row.failed:,}",
            f"{row.unfinished:,}",
            rounded(row.mean_response_time),
            rounded(row.percentile_95),
            rounded(row.mean_waiting_time),
            ", ".join(map(rounded, row.widths)),
        ]
        for row in (found.usage for found in by_size(advice))
    ]
    text = (
        f"{usage.jobs:,} jobs of {len(usage.classes)} classes in {rounded(usage.end - usage.start)} {unit}; "
        f"{usage.utilisation:.0%} of {usage.cores:g} cores were held on average (the line)."
    )
    legend = " ".join(
        f'<span class="key {style}"></span>{_text(name)}' for name, style, _ in load_bands(advice)
    )
    return (
        f"<section><h2>What was observed</h2><p>{_text(text)}</p>"
        f'<figure class="wide">{load_figure(advice)}<figcaption>{legend}</figcaption></figure>'
        f"{_class_table(header, rows)}</section>"
    )


def _classes(advice: Advice) -> str:
    header = [
        "class",
        f"mean size ({advice.times_in} on one core)",
        "spread of sizes (CV²)",
        "curve",
        "does the model hold?",
    ]
    classes = by_size(advice)
    rows = [
        [row.name, rounded(row.usage.mean_size), sizes_in_words(row), curve_in_words(row), fit_in_words(row)]
        for row in classes
    ]
    own = [row for row in classes if row.curve.source != ASSUMED]
    figures = [
        f"<figure>{curve_figure(advice, row, i)}<figcaption>{_caption(row)}</figcaption></figure>"
        for i, row in enumerate(own[:_SHOWN])
    ]
    if advice.assumed:
        caption = f"assumed for {listed([row.name for row in classes if row.curve.source == ASSUMED])}"
        figures.append(f"<figure>{assumed_figure(advice)}<figcaption>{_text(caption)}</figcaption></figure>")
    return (
        f'<section><h2>Sizes and curves</h2><div class="grid-of-figures">{"".join(figures)}</div>'
        f"{_class_table(header, rows)}</section>"
    )


def _dependence(advice: Advice) -> str:
    """Return how the answer depends on curves that were assumed, if any were."""
    assumed = [row.name for row in by_size(advice) if row.curve.source == ASSUMED]
    if not assumed:
        return ""
    low, middle, high = (f"p = {curve.p:g}" for curve in (ASSUMED_RANGE[0], ASSUMED_CURVE, ASSUMED_RANGE[1]))
    rows = [
        [row.label, percent(row.gains_at_ends[0]), percent(row.gain), percent(row.gains_at_ends[1])]
        for row in advice.outcomes
        if row.gains_at_ends
    ]
    text = (
        f"The log does not tell the curves of {listed(assumed)}. Less time than in the log, if they scale "
        f"badly ({low} in Amdahl's law), as assumed ({middle}), and linearly ({high}):"
    )
    return (
        f"<section><h2>How the answer depends on the curves</h2><p>{_text(text)}</p>"
        f"{_table(['policy', low, middle, high], rows)}</section>"
    )


def _caption(row: ClassAdvice) -> str:
    if not row.curve.informative:
        return _text(f"{row.name}: as measured; grey, cores that its jobs held most")
    return _text(
        f"{row.name}: line, the mean of likely curves; band, 95 %; grey, cores that its jobs held most"
    )


def _cores(advice: Advice) -> str:
    if not advice.cores.answered:
        return ""
    return (
        f"<section><h2>How many cores</h2><p>{_text(cores_in_words(advice))} "
        f"{_text(one_more_in_words(advice))}</p>"
        f"<figure>{cores_figure(advice)}</figure></section>"
    )


def _listed(title: str, lines: Iterable[str]) -> str:
    rows = "".join(f"<li>{_text(line)}</li>" for line in lines)
    return f"<section><h2>{_text(title)}</h2><ul>{rows}</ul></section>" if rows else ""


def _files(files: Iterable[tuple[str, str]]) -> str:
    rows = "".join(f"<li><code>{_text(name)}</code>: {_text(what)}</li>" for name, what in files)
    return f"<section><h2>To go on with</h2><ul>{rows}</ul></section>" if rows else ""


def _class_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table with a row for each class, all but the first of which are folded if they are many."""
    first, rest = rows[:_SHOWN], rows[_SHOWN:]
    if len(rest) <= 1:
        return _table(header, rows)
    folded = f"<details><summary>{len(rest)} more classes</summary>{_table(header, rest)}</details>"
    return _table(header, first) + folded


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return html_table(Table(header, rows), rows=None, longest=None, labels=True)


def _interval(ends: tuple[float, float]) -> str:
    low, high = ends
    return f"{rounded(low)} to {rounded(high) if math.isfinite(high) else 'any'}"
