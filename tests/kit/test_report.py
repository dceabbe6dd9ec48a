"""Reports as text and HTML; results are one line at a prompt, whatever classes are called."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

import corewise as cw
from corewise.kit.frozen import FrozenMapping
from corewise.kit.report import (
    Report,
    Reported,
    Summarised,
    Table,
    as_text,
    html_table,
    json_values,
    one_line,
)
from corewise.policies.base import BoundPolicy
from tests.helpers.results import few_of, system_of

WIDEST = 120
MARKUP = "<script>alert('&amp;')</script>"
NAMES = {
    "plain": ("one", "two"),
    "long": ("x" * 500, "y" * 500),
    "markup": (MARKUP, '"><img src=x>&lt;'),
    "odd": ("a\x1b[31m\u2028b\x85c\x0bd", "\u202eé\U0001f600" * 40),
}


class Cells(HTMLParser):
    """Reads a table, and refuses tags that are not closed in order or were not expected."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tables: list[list[list[str]]] = []
        self.caption = ""
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in {"table", "caption", "thead", "tbody", "tr", "th", "td", "p"}
        assert {name for name, _ in attrs} <= {"colspan"}
        self._open.append(tag)
        if tag == "table":
            self.tables.append([])
        if tag == "tr":
            self.rows.append([])
        if tag in {"th", "td"}:
            self.rows[-1].append("")

    @property
    def rows(self) -> list[list[str]]:
        """The rows of the last table."""
        return self.tables[-1]

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open[-1] == "caption":
            self.caption += data
        elif self._open[-1] in {"th", "td"}:
            self.rows[-1][-1] += data


@pytest.fixture(scope="module", params=NAMES)
def results(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[object]:
    folder = tmp_path_factory.mktemp("log")
    fit = cw.fit_curve([1, 2, 4, 8], [1.0, 1.8, 3.1, 4.2])
    others = [fit, *fit.candidates, *wide_results(NAMES[request.param][0])]
    return [*few_of(system_of(NAMES[request.param]), folder), *others]


def wide_results(name: str) -> list[object]:
    """Those that are about many classes."""
    system = system_of(tuple(f"{name[:480]} {i}" for i in range(50)))
    whittle = cw.simulate(system, cw.Whittle(), departures=200, rng=1)
    mean = cw.simulated_mean(system, cw.Equi(), events=50_000, rng=1)
    return [
        system,
        whittle,
        whittle.classes,
        whittle.state,
        cw.lower_bounds(system),
        mean,
        cw.SimulatedPlant(system),
    ]


@pytest.mark.slow
def test_a_repr_is_one_short_line(results: list[object]) -> None:
    for result in results:
        line = repr(result)
        assert len(line) <= WIDEST, line
        assert line.isprintable(), line
        assert len(line.splitlines()) == 1
        assert line.startswith(("{", type(result).__name__ + "("))


def test_a_notebook_shows_a_small_table(results: list[object]) -> None:
    for result in results:
        text = result._repr_html_()  # type: ignore[attr-defined]
        assert len(text) < 10_000
        cells = Cells(text)
        assert cells.caption
        for table in cells.tables:
            assert len(table) <= 22
            shown = [row for row in table if not row[0].startswith("… ")]
            assert len({len(row) for row in shown}) <= 1
            assert all(cell.isprintable() for row in shown for cell in row)


def test_text_has_all_that_a_report_says() -> None:
    table = Table(["class", "jobs"], [["one", 1 / 3], [MARKUP, (0.25, 0.5)]], title="By class")
    report = Report("A title", [("cores", 30), ("bound", math.nan)], [table], ["a note"])
    assert as_text(report).splitlines() == [
        "A title",
        "  cores  30",
        "  bound  -",
        "By class",
        "",
        "  class                                   jobs",
        " ──────────────────────────────────────────────",
        "  one                               0.33333333",
        f"  {MARKUP}     0.25–0.5",
        "",
        "a note",
    ]
    narrow = as_text(replace(report, notes=["a long note " * 5]), 30).splitlines()
    assert max(map(len, narrow)) <= 30
    assert "0.33333333" in "".join(narrow)
    assert "\x1b[1m" in as_text(report, color=True)
    assert max(map(len, as_text(Report("a long title " * 5), 30).splitlines())) <= 30


def test_facts_below_a_table_have_a_title() -> None:
    facts = Table((), [("one", "no sign against it")], title="Does the log follow the model?")
    assert as_text(Report("log.csv", tables=[facts])).splitlines() == [
        "log.csv",
        "Does the log follow the model?",
        "  one  no sign against it",
    ]


@dataclass(frozen=True, repr=False)
class Part(Summarised):
    name: str
    edge_probability: float
    secret: int = 0

    _json_fields = ("name", "beyond=edge_probability")


@dataclass(frozen=True, repr=False)
class Whole(Reported):
    parts: Mapping[str, Part]
    first: Part
    interval: tuple[float, float] = (0.0, math.inf)

    _json_fields = ("classes=parts", "first=first.name", "interval")

    def report(self) -> Report:
        return Report("Whole", [("first", self.first.name)])


def test_json_has_declared_keys_only() -> None:
    part = Part("one", 0.5)
    whole = Whole(FrozenMapping({"one": part}), part)
    assert json_values(whole) == {
        "classes": [{"name": "one", "beyond": 0.5}],
        "first": "one",
        "interval": [0.0, math.inf],
    }
    assert json_values({"p": np.float64(0.5)}) == {"p": 0.5}
    assert str(whole) == "Whole\n  first  one"
    assert str(part) == repr(part) == "Part()"


def test_names_are_escaped_and_come_back() -> None:
    cells = Cells(system_of(NAMES["markup"])._repr_html_())
    assert [row[0] for row in cells.rows] == ["name", *NAMES["markup"]]


@pytest.mark.slow
def test_every_public_result_is_among_them(tmp_path: Any) -> None:
    kinds = {type(result) for result in few_of(system_of(NAMES["plain"]), tmp_path)}
    kinds |= {type(result) for result in wide_results("w")}
    kinds |= {cw.results.CurveFit, cw.results.FamilyFit}
    elsewhere = {cw.results.EventKind}  # an enumeration
    public = {getattr(cw.results, name) for name in cw.results.__all__} - elsewhere
    top = {
        cw.Statistics,
        cw.SamplePath,
        cw.Tabular,
        cw.System,
        cw.JobClass,
        cw.SimulatedPlant,
        cw.ReplayPlant,
    }
    assert public | top | {BoundPolicy, cw.Algorithm, cw.ChangeDetector} <= kinds


def test_an_improvement_shows_its_rounds() -> None:
    from corewise.control.improve.improved import improve

    found = improve(system_of(("a", "b", "c", "d")), rng=1, steps=1, events=2000)
    assert repr(found).startswith("Improvement(rounds=2, chosen=")
    assert len(Cells(found._repr_html_()).rows) == 3
    assert all(len(repr(row)) <= WIDEST for row in found.rounds)


def test_what_a_solution_shows() -> None:
    solution = cw.solve(cw.load_system("paper:1"), capacity=(16, 12))
    low, high = solution.bounds
    facts = f"mean_jobs={solution.mean_jobs:.6g}, bounds=[{low:.6g}, {high:.6g}], capacity=(16, 12)"
    assert repr(solution) == f"Solution({facts})"
    cells = Cells(solution._repr_html_())
    rows = solution.performance.classes.values()
    assert cells.rows[0] == ["class", "mean number of jobs", "mean response time"]
    assert [row[1] for row in cells.rows[1:-1]] == [f"{row.mean_jobs:.8g}" for row in rows]


# --- the means ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (1, "1"),
        (np.int64(7), "7"),
        (1 / 3, "0.333333"),
        (30.0, "30.0"),
        (np.float64(0.25), "0.25"),
        (float("nan"), "nan"),
        (True, "True"),
        (None, "None"),
        ("it's", '"it\'s"'),
        ("a\nb", r"'a\nb'"),
        ((0.5, 1.5), "[0.5, 1.5]"),
        ((16, 12), "(16, 12)"),
        ((16,), "(16,)"),
        ((), "()"),
        (tuple(range(50)), "(0, 1, 2, … 50 in all)"),
        ((None, None), "2"),
        (np.zeros((2, 3)), "array(2, 3)"),
        ({"p": 0.5}, "{'p': 0.5}"),
        (cw.Amdahl(0.5), "Amdahl(p=0.5)"),
        (system_of(("a",)), "System(…)"),
    ],
)
def test_values_in_a_line(value: object, shown: str) -> None:
    assert one_line("", {"x": value}) == f"(x={shown})"


def test_a_line_that_is_too_long_is_cut() -> None:
    line = one_line("Kind", {f"fact{i}": 1.0 for i in range(50)})
    assert len(line) == WIDEST
    assert line.endswith("…)")


def test_a_table_that_is_too_long_is_cut() -> None:
    cells = Cells(html_table(Table(("a", "b"), [(i, i) for i in range(50)])))
    assert len(cells.rows) == 22
    assert cells.rows[-1] == ["… 30 more"]
    assert len(Cells(html_table(Table(("a", "b"), [(1, 2)] * 20))).rows) == 21


def test_a_mapping_shows_as_a_dictionary_while_it_fits() -> None:
    few: Mapping[str, float] = FrozenMapping({"p": 1 / 3})
    assert repr(few) == "{'p': 0.3333333333333333}"
    many = FrozenMapping({f"class {i}": float(i) for i in range(50)})
    assert repr(many) == "{'class 0': 0.0, 'class 1': 1.0, 'class 2': 2.0, … 50 in all}"
    assert len(Cells(many._repr_html_()).rows) == 22
    assert Cells(FrozenMapping({MARKUP: 1.0})._repr_html_()).rows[1] == [MARKUP, "1"]
