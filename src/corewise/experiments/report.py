"""Results of experiments: numbers, tables and figures, and the report in one self-contained HTML file."""

from __future__ import annotations

import base64
import csv
import io
import math
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from corewise.experiments.studies.learning import LearningStudy
from corewise.kit.progress import Progress
from corewise.kit.report import Table, html_page, html_table

__all__ = [
    "Block",
    "Heading",
    "Picture",
    "Result",
    "ResultTable",
    "Section",
    "Setting",
    "epochs_table",
    "html_report",
    "html_section",
]


@dataclass(frozen=True)
class Heading:
    """Section heading of a report."""

    text: str


@dataclass(frozen=True, eq=False)
class Picture:
    """Figure of a report, as the bytes of a PNG file of that name."""

    name: str
    caption: str
    png: bytes


@dataclass(frozen=True, eq=False)
class ResultTable:
    """Table of a report, written as a CSV file of that name; in the report if it has a caption."""

    name: str
    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    caption: str = ""

    def as_csv(self) -> str:
        """Return the table as CSV, numbers in full; unknown values are left empty."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows([["" if _is_nothing(cell) else cell for cell in row] for row in self.rows])
        return text.getvalue()


Block = str | Heading | Picture | ResultTable
"""Part of a report; a text is a paragraph."""


@dataclass(frozen=True, eq=False)
class Result:
    """Result of an experiment: numbers, and a report with tables and figures.

    Attributes
    ----------
    name, title : str
        Its name on the command line, and its title in the report.
    headline : str
        The outcome in one sentence.
    numbers : mapping
        The results, as plain values.
    blocks : sequence of blocks
        The report.
    """

    name: str
    title: str
    headline: str
    numbers: Mapping[str, Any]
    blocks: Sequence[Block]


@dataclass(frozen=True, eq=False)
class Setting:
    """Setting of an experiment: its seed, the executor of its work, and a progress callback."""

    seed: tuple[int, ...]
    executor: Executor | None = None
    progress: Progress | None = None

    def stream(self, part: int) -> np.random.Generator:
        """Return the random stream of a part of the experiment; it depends on the seed and the part alone."""
        return np.random.default_rng([*self.seed, part])

    def part(self, begin: float, end: float) -> Progress | None:
        """Return the progress callback of a part of the work, from one share of the whole to another."""
        report = self.progress
        return None if report is None else lambda share: report(begin + (end - begin) * share)


def _is_nothing(cell: object) -> bool:
    return cell is None or (isinstance(cell, float) and math.isnan(cell))


def epochs_table(studies: Mapping[str, LearningStudy]) -> ResultTable:
    """Return every epoch of every run, by algorithm."""
    first = next(iter(studies.values()))
    columns = ["algorithm", "run", "k", "departures", "window", "time"]
    columns += [f"p:{name}" for name in first.names] + ["mean_jobs", "gap"]
    rows = [
        [
            name,
            run,
            k + 1,
            int(study.departures[k]),
            int(study.windows[k]),
            study.times[run, k],
            *study.estimates[run, :, k].tolist(),
            study.mean_jobs[run, k],
            study.gaps[run, k],
        ]
        for name, study in studies.items()
        for run in range(study.times.shape[0])
        for k in range(study.departures.size)
    ]
    return ResultTable("epochs", columns, rows)


# --- HTML -----------------------------------------------------------------------------------------

_STYLE = """
:root { --ink: #1d2329; --soft: #5c6670; --line: #d9dee3; --shade: #f5f7f9; --accent: #0072b2; }
* { box-sizing: border-box; }
body { margin: 0; color: var(--ink); background: #fff;
  font: 17px/1.6 Georgia, "Times New Roman", serif; }
main { max-width: 46rem; margin: 0 auto; padding: 3rem 1.25rem 5rem; }
h1, h2, h3, nav, table, figcaption, footer {
  font-family: system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; }
h1 { font-size: 2.1rem; line-height: 1.2; margin: 0 0 .5rem; }
h2 { font-size: 1.5rem; line-height: 1.25; margin: 4rem 0 .5rem; padding-top: 1rem;
  border-top: 3px solid var(--accent); }
h3 { font-size: 1.05rem; margin: 2.2rem 0 .4rem; }
p { margin: 0 0 1rem; }
.lead { font-size: 1.1rem; color: var(--soft); }
nav { font-size: .95rem; margin: 2rem 0; padding: 1rem 1.25rem; background: var(--shade);
  border-radius: 6px; }
nav ol { margin: 0; padding-left: 1.3rem; }
a { color: var(--accent); }
figure { margin: 1.5rem 0 2rem; }
img { display: block; max-width: 100%; height: auto; margin: 0 auto; }
figcaption, caption { font-size: .86rem; line-height: 1.45; color: var(--soft); }
figcaption { margin-top: .6rem; }
.wide { overflow-x: auto; margin: 1.5rem 0 2rem; }
table { border-collapse: collapse; width: 100%; font-size: .84rem; line-height: 1.4;
  font-variant-numeric: tabular-nums; }
caption { caption-side: bottom; text-align: left; padding-top: .6rem; }
th { text-align: right; font-weight: 600; vertical-align: bottom; border-bottom: 1.5px solid var(--ink);
  padding: .3rem .5rem; }
td { text-align: right; padding: .3rem .5rem; border-bottom: 1px solid var(--line); white-space: nowrap; }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
dt { font-weight: 600; margin-top: .5rem; }
dd { margin: 0 0 0 1.2rem; }
dl { font-size: .92rem; line-height: 1.5; }
footer { margin-top: 4rem; padding-top: 1rem; border-top: 1px solid var(--line); font-size: .86rem;
  color: var(--soft); }
@media print { h2 { break-before: page; } figure, table { break-inside: avoid; } }
"""

_GLOSSARY = (
    ("EQUI", "every job holds the same number of cores; needs to know nothing about the curves."),
    ("GREEDY*", "the split that makes jobs leave fastest at this moment; needs the curves."),
    ("Whittle", "one price for a core, and every job takes what is worth the price to it; needs the curves."),
    ("Optimum, J*", "the least possible mean number of jobs in the system, exact and certified."),
    (
        "Above the optimum",
        "J/J* − 1 for the mean number of jobs J under a policy: by Little's law also how much longer "
        "jobs stay.",
    ),
    ("Cramér–Rao bound", "no unbiased estimate from the same data has a smaller standard deviation."),
    (
        "V(0, 0), ν",
        "the value of the empty system in Algorithm 2; and the constant that turns rates into probabilities.",
    ),
)


@dataclass(frozen=True)
class Section:
    """Section of the report: an experiment, with its name, its title and its report as HTML."""

    name: str
    title: str
    html: str


def html_report(found: Sequence[Section], seed: int, version: str) -> str:
    """Return the reports of experiments as one page, with figures and style in it."""
    sections = "\n".join(section.html for section in found)
    contents = "\n".join(
        f'<li><a href="#{escape(section.name)}">{escape(section.title)}</a></li>' for section in found
    )
    glossary = "\n".join(f"<dt>{escape(term)}</dt><dd>{escape(meaning)}</dd>" for term, meaning in _GLOSSARY)
    body = f"""<h1>Learning how jobs scale</h1>
<p class="lead">The experiments of Bodas, Dorsman, Mandjes and Ravner, <em>Dynamic Core Allocation for
Malleable Jobs with Unknown Speed-up Parameters</em> (2026), run again by corewise, with what the paper does
not show: how far every policy is from the best one, exactly, and what learning is worth.</p>
<p>A pool of cores serves two classes of jobs. How much a class gains from more cores is unknown. The loop
watches arrivals and departures for a window, estimates the speed-up curves by maximum likelihood, solves for
the split of the cores that keeps the fewest jobs in the system, adopts it, and begins the next window.</p>
<nav><ol>
{contents}
</ol></nav>
<h3>Words used</h3>
<dl>
{glossary}
</dl>
{sections}
<footer>corewise {escape(version)}, seed {seed}. The same seed gives the same numbers, whatever the number of
workers. Tables (CSV), figures (PNG) and results (JSON) are in a directory for each experiment, beside
this file.</footer>"""
    return html_page("Learning how jobs scale: the experiments, repeated", _STYLE, body)


def html_section(result: Result) -> str:
    """Return the report of an experiment as HTML."""
    blocks = "\n".join(filter(None, (_html(block) for block in result.blocks)))
    return f'<section id="{escape(result.name)}">\n<h2>{escape(result.title)}</h2>\n{blocks}\n</section>'


def _html(block: Block) -> str:
    match block:
        case Heading(text):
            return f"<h3>{escape(text)}</h3>"
        case Picture():
            data = base64.b64encode(block.png).decode("ascii")
            caption = escape(_line(block.caption))
            return (
                f'<figure><img alt="{caption}" src="data:image/png;base64,{data}">'
                f"<figcaption>{caption}</figcaption></figure>"
            )
        case ResultTable():
            return _table(block) if block.caption else ""
    return f"<p>{escape(_line(block))}</p>"


def _table(table: ResultTable) -> str:
    cells = [[_cell(value) for value in row] for row in table.rows]
    shown = Table(table.columns, cells, title=_line(table.caption))
    return f'<div class="wide">{html_table(shown, rows=None, longest=None)}</div>'


def _cell(value: object) -> str:
    if not isinstance(value, float):
        return str(value)
    if math.isinf(value):
        return "unstable"
    return f"{value:.4g}".replace("-", "−")


def _line(text: str) -> str:
    return " ".join(text.split())
