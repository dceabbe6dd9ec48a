"""Pages that are held to what they show: their blocks are run, and what they print is compared.

The blocks of a page in Markdown are taken from top to bottom, in one directory:

- ``python`` is a program of its own, run with warnings as errors. It must print something.
- ``sh`` has lines ``corewise …``, which are run in order.
- ``console`` has such lines after ``$ ``, each with what it prints below it.
- ``toml`` and ``csv`` are files, written if the line above names one in backticks.
- ``text``, ``output``, or a ``console`` without commands, directly below one that is run (blank lines
  between them at most), shows what that printed.

What is shown must be what was printed, at `WIDTH` columns and without colour, but for

- times and speeds ("0.8 s", "3,350 a second"), which differ from run to run;
- numbers beyond six digits, or below 1e-9, which differ from machine to machine;
- ``…`` or ``...``: on a line of its own any number of lines, at the end of a line the rest of it.

``python -m tests.helpers.documents README.md docs/*.md`` writes what is printed now in place of what is shown
and differs.
"""

from __future__ import annotations

import difflib
import re
import shlex
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from typer.testing import CliRunner

from corewise.cli.main import app
from tests.helpers.programs import run_program

ROOT = Path(__file__).parents[2]
WIDTH = 100
SURROUNDINGS = {"COLUMNS": str(WIDTH), "NO_COLOR": "1", "TERM": "dumb"}

OUTPUTS = {"text", "output", "console"}
FILES = {"toml", "csv"}
LANGUAGES = {"python", "sh", *OUTPUTS, *FILES}
ELLIPSES = ("…", "...")
PROMPT = "$ "

_PASSING = re.compile(r"\b\d[\d,.]*(?:e[-+]?\d+)? (?:[mµn]?s|min|h|a second)\b|(?<=\"seconds\": )[\d.e-]+")
_NUMBER = re.compile(r"(\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?)")


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its lines, where they begin, and what stands above it."""

    language: str
    lines: tuple[str, ...]
    start: int
    above: str
    adjoins: bool


@dataclass(frozen=True)
class Step:
    """A block that is run or written, or a command of one, and the lines that show what it prints."""

    kind: str
    source: str
    line: int
    shown: slice | None = None


def pages() -> list[Path]:
    """Return the README and all pages below docs/."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(text: str) -> list[Block]:
    """Return the fenced blocks of a page."""
    found: list[Block] = []
    fence, language, start = "", "", 0
    above, adjoins = "", False
    lines = text.splitlines()
    for i, line in enumerate(lines):
        mark = re.match(r"\s*(`{3,})(.*)", line)
        if fence:
            if mark is not None and len(mark[1]) >= len(fence) and not mark[2].strip():
                found.append(Block(language, tuple(lines[start:i]), start, above, adjoins))
                fence, above, adjoins = "", "", True
        elif mark is not None:
            assert line.startswith("`"), f"line {i + 1}: an indented block would not be run"
            fence, language, start = mark[1], mark[2].strip(), i + 1
        elif line.strip():
            above, adjoins = line, False
    assert not fence, f"line {start}: the block is not closed"
    return found


def steps(text: str) -> list[Step]:
    """Return what is to be done on a page, in order."""
    found: list[Step] = []
    before = ""
    for block in blocks(text):
        end = block.start + len(block.lines)
        follows = block.adjoins and before in {"python", "sh"}
        before = block.language
        if block.language in FILES:
            name = re.search(r"`([\w.-]+\.(?:toml|csv))`", block.above)
            source = "\n".join([name[1] if name else "", *block.lines, ""])
            found.append(Step(block.language, source, block.start))
        elif block.language in {"python", "sh"}:
            found.append(Step(block.language, "\n".join(block.lines), block.start))
        elif block.language == "console" and any(line.startswith(PROMPT) for line in block.lines):
            found += _commands(block)
        elif block.language in OUTPUTS and follows:
            last = found.pop()
            found.append(Step(last.kind, last.source, last.line, slice(block.start, end)))
    return found


def _commands(block: Block) -> Iterator[Step]:
    """Give the commands of a console, each with the lines below it: without any, nothing is compared."""
    prompts = [i for i, line in enumerate(block.lines) if line.startswith(PROMPT)]
    assert prompts[0] == 0, f"line {block.start + 1}: output without a command"
    for i, end in zip(prompts, [*prompts[1:], len(block.lines)], strict=True):
        shown = slice(block.start + i + 1, block.start + end) if end > i + 1 else None
        yield Step("sh", block.lines[i].removeprefix(PROMPT), block.start + i, shown)


def play(text: str, directory: Path) -> Iterator[tuple[Step, list[str]]]:
    """Do what a page does, step by step, and give what each step printed."""
    for step in steps(text):
        try:
            printed = _DOERS[step.kind](step.source, directory)
        except AssertionError as error:
            raise AssertionError(f"line {step.line + 1}: {error}") from None
        yield step, _trimmed(printed.splitlines())


def _run_program(source: str, directory: Path) -> str:
    file = directory / "program.py"  # a file, as processes that a program starts import it
    file.write_text(source, encoding="utf-8")
    code, printed, said = run_program(file, SURROUNDINGS)
    assert code == 0, said
    assert printed.strip(), "the program prints nothing"
    return printed


def _run_commands(source: str, directory: Path) -> str:
    printed = []
    for line in source.splitlines():
        words = shlex.split(line, comments=True)
        if not words:
            continue
        assert words[0] == "corewise", f"not a command of corewise: {line}"
        # On a busy machine a command may take long, and would say so.
        with chdir(directory), mock.patch("corewise.cli.waiting._COMPILING", 1e9):
            done = CliRunner(env=SURROUNDINGS).invoke(app, words[1:])
        assert done.exit_code == 0, f"{line}\n{done.output}{done.exception or ''}"
        printed.append(done.output)
    return "".join(printed)


def _write_toml(source: str, directory: Path) -> str:
    tomllib.loads(source.partition("\n")[2])
    return _write_file(source, directory)


def _write_file(source: str, directory: Path) -> str:
    name, _, content = source.partition("\n")
    if name:
        (directory / name).write_text(content, encoding="utf-8")
    return ""


_DOERS = {"python": _run_program, "sh": _run_commands, "toml": _write_toml, "csv": _write_file}


# --- what is shown, and what is printed ----------------------------------------------------------


def check(text: str, directory: Path) -> None:
    """Fail if a block of a page cannot be run, or prints something else than the page shows."""
    lines = text.splitlines()
    for step, printed in play(text, directory):
        if step.shown is not None:
            shown = _trimmed(lines[step.shown])
            what = "".join(f"{line}\n" for line in difflib.unified_diff(shown, printed, "shown", "printed"))
            assert agree(shown, printed), f"line {step.shown.start + 1}:\n{what}"


def renewed(text: str, directory: Path) -> str:
    """Return a page with what is printed now in place of what it shows and differs."""
    lines = text.splitlines()
    changes = [
        (step.shown, printed)
        for step, printed in play(text, directory)
        if step.shown is not None and not agree(_trimmed(lines[step.shown]), printed)
    ]
    for shown, printed in reversed(changes):
        lines[shown] = printed
    return "\n".join(lines) + "\n"


def agree(shown: Sequence[str], printed: Sequence[str]) -> bool:
    """Return whether lines are shown as they were printed."""
    if not shown:
        return not printed
    if shown[0].strip() in ELLIPSES:
        return any(agree(shown[1:], printed[i:]) for i in range(len(printed) + 1))
    return bool(printed) and _agree_line(shown[0], printed[0]) and agree(shown[1:], printed[1:])


def _agree_line(shown: str, printed: str) -> bool:
    if _parts(shown) == _parts(printed):
        return True
    for mark in ELLIPSES:
        if shown.endswith(mark) and printed.startswith(shown.removesuffix(mark)):
            return True
    ours, theirs = _parts(shown), _parts(printed)
    return (
        len(ours) == len(theirs)
        and ours[::2] == theirs[::2]
        and all(_close(a, b) for a, b in zip(ours[1::2], theirs[1::2], strict=True))
    )


def _parts(line: str) -> list[str]:
    """Split a line into text and numbers, which alternate; how wide a column of times is does not matter."""
    steady, count = _PASSING.subn("<time>", line.rstrip())
    return _NUMBER.split(" ".join(steady.split()) if count else steady)


def _close(a: str, b: str) -> bool:
    x, y = float(a.replace(",", "")), float(b.replace(",", ""))
    return abs(x - y) <= 1e-9 + 1e-6 * max(abs(x), abs(y))


def _trimmed(lines: Sequence[str]) -> list[str]:
    """Return lines without blanks at their ends, and without blank ones above and below."""
    kept = [line.rstrip() for line in lines]
    while kept and not kept[0]:
        kept = kept[1:]
    while kept and not kept[-1]:
        kept = kept[:-1]
    return kept


if __name__ == "__main__":
    for name in sys.argv[1:]:
        file = Path(name)
        with tempfile.TemporaryDirectory() as place:
            file.write_text(renewed(file.read_text(encoding="utf-8"), Path(place)), encoding="utf-8")
