"""What an experiment gives: numbers for machines, and a story with tables and figures for people."""

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
from corewise.simulation.simulator import Progress

__all__ = ["Block", "Heading", "Picture", "Result", "Setting", "Table", "epochs_table"]


@dataclass(frozen=True)
class Heading:
    """The beginning of a part of the story."""

    text: str


@dataclass(frozen=True, eq=False)
class Picture:
    """A figure, as the bytes of a PNG file of that name."""

    name: str
    caption: str
    png: bytes


@dataclass(frozen=True, eq=False)
class Table:
    """Rows under columns, written as a CSV file of that name; told to people if it has a caption."""

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
    """What an experiment gave.

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
    """What an experiment is run with: its own seed, who does the work, and whom to tell how far it is."""

    seed: tuple[int, ...]
    executor: Executor | None = None
    progress: Progress | None = None

    def stream(self, part: int) -> np.random.Generator:
        """Return the random stream of a part of the experiment; it depends on the seed and the part alone."""
        return np.random.default_rng([*self.seed, part])

    def part(self, begin: float, end: float) -> Progress | None:
        """Return whom to tell about a part of the work, which lies between two shares of the whole."""
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
