"""Results of experiments: numbers for machines, and a story with tables and figures for people."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

import numpy as np

from corewise.experiments.studies.learning import LearningStudy
from corewise.kit.progress import Progress

__all__ = ["Block", "Heading", "Picture", "Result", "Setting", "Table", "epochs_table"]


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
class Table:
    """Table of a report, written as a CSV file of that name; shown to people if it has a caption."""

    name: str
    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    caption: str = ""

    def as_csv(self) -> str:
        """Return the table as CSV, numbers in full; what is not known is left empty."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows([["" if _is_nothing(cell) else cell for cell in row] for row in self.rows])
        return text.getvalue()


Block = str | Heading | Picture | Table
"""A part of a story; a text is a paragraph."""


@dataclass(frozen=True, eq=False)
class Result:
    """Result of an experiment: numbers, and a report with tables and figures.

    Attributes
    ----------
    name, title : str
        What it is called on the command line, and in the report.
    headline : str
        What came out, in a sentence.
    numbers : mapping
        The results, as plain values.
    story : sequence of blocks
        The same for people.
    """

    name: str
    title: str
    headline: str
    numbers: Mapping[str, Any]
    story: Sequence[Block]


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
        told = self.progress
        return None if told is None else lambda share: told(begin + (end - begin) * share)


def _is_nothing(cell: object) -> bool:
    return cell is None or (isinstance(cell, float) and math.isnan(cell))


def epochs_table(studies: Mapping[str, LearningStudy]) -> Table:
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
    return Table("epochs", columns, rows)
