"""The map from the paper to the code, docs/paper.md: both of its ends exist, and its numbers are true.

What the paper numbers is counted in its source. Where that is not beside the repository, only the other end
is checked, and that the numbers leave no gaps.
"""

from __future__ import annotations

import importlib
import re
import shlex
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

import corewise as cw
from corewise.cli.main import app
from corewise.experiments.literal import literal_limit
from corewise.experiments.reproduce import ALL, EXPERIMENTS
from corewise.model.files import PACKAGED
from tests.helpers.latex import Numbering
from tests.helpers.literal import printed_sizes

ROOT = Path(__file__).parents[2]
MAP = ROOT / "docs" / "paper.md"
TEXT = MAP.read_text(encoding="utf-8")
SOURCE = ROOT.parent / "shared" / "paper.tex"
TITLE = "Dynamic Core Allocation for Malleable Jobs with Unknown Speed-up Parameters"
with_source = pytest.mark.skipif(
    not SOURCE.exists(), reason="the paper's source is not beside the repository"
)


@cache
def source() -> str:
    return SOURCE.read_text(encoding="utf-8")


def tables(text: str) -> list[list[dict[str, str]]]:
    """Return the tables of a text in Markdown, each row by the names of its columns."""
    found = []
    for block in re.findall(r"(?:^\|.*\|\n)+", text, flags=re.MULTILINE):
        header, _, *rows = [[cell.strip() for cell in line[1:-1].split("|")] for line in block.splitlines()]
        found.append([dict(zip(header, row, strict=True)) for row in rows])
    return found


def rows_of_the_map() -> list[dict[str, str]]:
    return [row for table in tables(TEXT) for row in table if "Paper" in row]


def entries() -> list[str]:
    """Return the numbers that the map has entries for; what is in italics has none."""
    cells = [row["Paper"] for row in rows_of_the_map()]
    return [item for cell in cells if not cell.startswith("*") for item in cell.split(", ")]


def spans(text: str) -> list[str]:
    """Return what is set as code."""
    return list(dict.fromkeys(re.findall(r"`([^`]+)`", text)))


# --- the paper's end ------------------------------------------------------------------------------

SMALL = r"""
\newtheorem{theorem}{Theorem}[section] \newtheorem{thm}{Theorem}[section]
\newtheorem{lemma}[thm]{Lemma} \newtheorem{remark}[thm]{Remark}
\numberwithin{equation}{section}
\begin{document}
\section{One} \label{s:one}
\begin{lemma} \label{l:first} \begin{align*} a &= b \\ c &= d \end{align*} \end{lemma}
\begin{theorem}
    \begin{align}\label{e:two} a &= \begin{cases} 1 \\ 2 \end{cases} \notag \\ &+ 3 \end{align}
\end{theorem}
\section{Two} % \begin{remark} \end{remark}
\subsection{Two and one} \label{s:sub}
\begin{remark} \label{r:first} \end{remark} \begin{lemma} \end{lemma}
\begin{equation} x = 50\% \label{e:x} \end{equation}
\begin{align} y &= 1, \label{e:y} \\ z &= 2 \label{e:z} \end{align}
\begin{figure} \foreach \x/\label in {1} { \node at (\x,0) {\label}; } \caption{A} \label{f:a} \end{figure}
\begin{figure}
    \begin{subfigure} \label{f:ba} \end{subfigure} \begin{subfigure} \end{subfigure} \label{f:b}
\end{figure}
\begin{algorithm} \label{a:one} \end{algorithm}
\begin{algorithm} \renewcommand{\thealgorithm}{1x} \label{a:x} \end{algorithm}
\begin{algorithm} \end{algorithm}
\end{document}
"""


def test_numbers_are_counted_as_latex_counts() -> None:
    found = Numbering(SMALL)
    assert sorted(found.items) == [
        *("(1.1)", "(2.1)", "(2.2)", "(2.3)", "Algorithm 1", "Algorithm 1x", "Algorithm 3"),
        *("Figure 1", "Figure 2", "Figure 2 (a)", "Figure 2 (b)", "Lemma 1.1", "Lemma 2.2"),
        *("Remark 2.1", "Section 1", "Section 2", "Section 2.1", "Theorem 1.1"),
    ]
    assert found.labels == {
        **{"s:one": "Section 1", "l:first": "Lemma 1.1", "e:two": "(1.1)", "s:sub": "Section 2.1"},
        **{"r:first": "Remark 2.1", "e:x": "(2.1)", "e:y": "(2.2)", "e:z": "(2.3)", "f:a": "Figure 1"},
        **{"f:ba": "Figure 2 (a)", "f:b": "Figure 2", "a:one": "Algorithm 1", "a:x": "Algorithm 1x"},
    }


@with_source
def test_every_number_of_the_paper_is_in_the_map() -> None:
    """The examples of Table 1 are columns, and no environments."""
    columns = {f"Example {n}" for n in re.findall(r"Example (\d) *(?:&|\\\\)", source())}
    assert len(columns) == 4
    assert set(entries()) == {*Numbering(source()).items, *columns}


@with_source
def test_every_label_of_the_paper_leads_to_an_entry() -> None:
    labels = Numbering(source()).labels
    assert set(labels) == set(re.findall(r"\\label\{([^{}]*)\}", source()))
    assert set(labels.values()) <= set(entries())


def test_the_numbers_of_the_map_leave_no_gaps() -> None:
    """In every section, and remarks, assumptions, lemmas and corollaries together; parts and 1a, 1b apart."""
    found = entries()
    assert len(found) == len(set(found))
    counted: dict[tuple[str, str], list[int]] = {}
    for item in found:
        number = re.fullmatch(r"(\w*) ?\(?(?:(\d)\.)?(\d+)(\w| \(\w\))?\)?", item)
        assert number is not None, item
        kind = re.sub("Remark|Assumption|Lemma|Corollary", "shared", number[1])
        if not number[4]:
            counted.setdefault((kind, number[2]), []).append(int(number[3]))
    for where, numbers in counted.items():
        assert sorted(numbers) == list(range(1, len(numbers) + 1)), where
    assert {kind for kind, _ in counted} == {
        *("", "Section", "Theorem", "shared", "Example", "Algorithm", "Figure", "Table")
    }


@with_source
def test_no_sentence_is_taken_from_the_paper() -> None:
    def runs(text: str, length: int = 10) -> set[tuple[str, ...]]:
        words = re.findall(r"[^\W\d_]+", text.lower())
        return {tuple(words[i : i + length]) for i in range(len(words) - length + 1)}

    printed = runs(re.sub(r"\\[A-Za-z]+|[{}$~]", " ", source()))
    own = " ".join(TEXT.split())
    assert runs(TITLE) <= printed & runs(own)
    assert not runs(own.replace(TITLE, "")) & printed


# --- the code's end -------------------------------------------------------------------------------


def check_name(name: str) -> None:
    """A module, or something in one; a field of a dataclass need not have a value."""
    parts = name.split(".")
    found: Any = importlib.import_module(parts[0])
    for i, part in enumerate(parts[1:], start=2):
        fields = getattr(found, "__dataclass_fields__", {})
        if part not in fields and not hasattr(found, part):
            found = importlib.import_module(".".join(parts[:i]))
        else:
            found = fields[part] if part in fields else getattr(found, part)


def check_command(text: str) -> None:
    """A command line that can be parsed; it is not run."""
    _, verb, *arguments = shlex.split(text)
    group: Any = get_command(app)
    try:
        group.commands[verb].make_context(verb, list(arguments)).close()
    except Exception as error:  # typer has classes of its own for what is wrong, or those of click
        raise AssertionError(f"{text}: {error}") from error
    assert all(word in PACKAGED for word in arguments if word.startswith("paper:"))
    assert verb != "reproduce" or arguments[0] in {*EXPERIMENTS, ALL}


def check_file(text: str) -> None:
    """A file of the repository, and a test in it if one is named."""
    path, _, test = text.partition("::")
    assert (ROOT / path).is_file()
    assert not test or f"\ndef {test}(" in (ROOT / path).read_text(encoding="utf-8")


def check(span: str) -> None:
    if span.startswith("corewise "):
        check_command(span)
    elif re.fullmatch(r"\w+(\.\w+)*", span) and not span.endswith(".md"):
        check_name(span if span.startswith("corewise.") else f"corewise.{span}")
    else:
        check_file(span)


@pytest.mark.parametrize("span", spans(TEXT))
def test_what_is_set_as_code_exists(span: str) -> None:
    check(span)


@pytest.mark.parametrize(
    "span",
    [
        *("corewise.control.nothing", "corewise.nothing.solve", "corewise.model.system.System.cors"),
        *("corewise nothing", "corewise solve paper:9", "corewise solve paper:1 --nothing"),
        *("corewise reproduce table-3", "tests/test_nothing.py", "NOTHING.md", "nothing"),
        "tests/estimation/test_estimate.py::test_nothing",
    ],
)
def test_what_does_not_exist_is_noticed(span: str) -> None:
    with pytest.raises((AssertionError, ModuleNotFoundError)):
        check(span)


def test_every_entry_names_something_or_says_why_not() -> None:
    for row in rows_of_the_map():
        assert spans(row["In corewise"]) or re.match(r"Nothing: \w+", row["In corewise"]), row
        assert row["What it is"], row


def cited(passage: str) -> list[str]:
    """Return the numbers in a text as the map writes them: "figures 2 and 3", "(4.1)-(4.4)"."""
    kinds = "section|theorem|lemma|corollary|remark|assumption|example|algorithm|figure|table"
    lists = re.findall(rf"\b({kinds})s?((?:,?(?: and| to)? \d[.\d]*[ab]?)+)", passage, flags=re.IGNORECASE)
    named = [
        f"{kind.capitalize()} {n}" for kind, ns in lists for n in re.findall(r"\d(?:\.\d+|\d*[ab]?)", ns)
    ]
    return named + re.findall(r"\(\d\.\d+\)", passage)


def test_numbers_that_the_code_cites_are_in_the_map() -> None:
    """From "Paper:" to the end of the paragraph."""
    assert cited("Sections 2 and 3.1, figures 2, 5 and 12, Algorithm 1a; (4.1)-(4.4).") == [
        *("Section 2", "Section 3.1", "Figure 2", "Figure 5", "Figure 12", "Algorithm 1a", "(4.1)", "(4.4)")
    ]
    known, count = set(entries()), 0
    for file in sorted((ROOT / "src").rglob("*.py")):
        for passage in re.findall(r"Paper: (.*?)(?=\n\s*\n|\"\"\")", file.read_text("utf-8"), re.DOTALL):
            numbers = cited(" ".join(passage.split()))
            assert set(numbers) <= known, f"{file.name}: {passage}"
            count += len(numbers)
    assert count > 30


# --- what was measured ----------------------------------------------------------------------------


def is_rounded(shown: str, value: float) -> bool:
    """Return whether a number as shown is the value, rounded."""
    return abs(float(shown) - value) <= 0.51 * 10.0 ** -len(shown.partition(".")[2])


def gaps(system: cw.System) -> dict[str, float]:
    """Return how many percent some policies cost above the optimum."""
    least = cw.solve(system).mean_jobs
    policies: dict[str, cw.Policy] = {
        "EQUI": cw.Equi(),
        "Algorithm 2 with ν": literal_limit(system, capacity=50).policy,
    }
    return {
        name: 100.0 * (cw.evaluate(system, rule).mean_jobs / least - 1.0) for name, rule in policies.items()
    }


@pytest.mark.parametrize("example", ["1", "2", "3"])
def test_what_is_said_of_algorithm_2_is_true(example: str) -> None:
    (table,) = [table for table in tables(TEXT) if "Growth without ν" in table[0]]
    (row,) = [row for row in table if row["Example"] == example]
    system = cw.load_system(f"paper:{example}")
    sizes = printed_sizes(system, capacity=50, steps=60)
    true = {"Load": system.load, "Growth without ν": sizes[-1] / sizes[-2], **gaps(system)}
    true |= {f"{name} at load 0.5": gap for name, gap in gaps(system.at_load(0.5)).items()}
    assert set(true) == set(row) - {"Example"}
    assert {name: row[name] for name, value in true.items() if not is_rounded(row[name], value)} == {}


@pytest.mark.parametrize("example", ["1", "2", "3"])
def test_what_is_said_of_fisher_information_is_true(example: str) -> None:
    (table,) = [table for table in tables(TEXT) if "1 − p₁" in table[0]]
    (row,) = [row for row in table if row["Example"] == example]
    system = cw.load_system(f"paper:{example}")
    told = cw.fisher_information(system, cw.solve(system).policy)
    for name, index in (("one", "₁"), ("two", "₂")):
        assert is_rounded(row[f"1 − p{index}"], 1.0 - system[name].speedup.parameters["p"])
        assert is_rounded(row[f"sd(p̂{index})·√M"], told[name].stderr(1)["p"])
