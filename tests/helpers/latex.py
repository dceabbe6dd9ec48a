"""The numbers that LaTeX prints, found by counting in a source as its counters do."""

from __future__ import annotations

import re
from collections import Counter

TOKEN = re.compile(
    r"\\(?:(?P<verb>begin|end|label)\{(?P<what>[^{}]*)\}"
    r"|(?P<mark>subsection|section|notag|nonumber|\\)(?![A-Za-z])"
    r"|renewcommand\{\\thealgorithm\}\{(?P<name>\w+)\}"
    r"|[A-Za-z]+|.)",
    flags=re.DOTALL,
)
FLOATS = {"figure": "Figure", "table": "Table", "algorithm": "Algorithm"}
DISPLAYS = {"equation", "align", "gather"}


class Numbering:
    """What a source numbers, and what each of its labels refers to.

    Environments are counted as the preamble says: theorems and their like by section, those that share a
    counter together; equations by section, each line of a display that is not marked otherwise; figures,
    tables and algorithms throughout, subfigures by letters. In a display a label belongs to the next number.
    """

    def __init__(self, source: str) -> None:
        preamble, body = re.sub(r"(?<!\\)%.*", "", source).split(r"\begin{document}")
        assert r"\numberwithin{equation}{section}" in preamble
        theorems = re.findall(r"\\newtheorem\{(\w+)\}(?:\[(\w+)\])?\{(\w+)\}(\[section\])?", preamble)
        assert all(bool(shared) != bool(within) for _, shared, _, within in theorems)
        self.theorems = {name: (title, shared or name) for name, shared, title, _ in theorems}
        self.items: list[str] = []
        self.labels: dict[str, str] = {}
        self._counts: Counter[str] = Counter()
        self._open: list[tuple[str, str]] = [("document", "")]
        self._numbered = True
        self._waiting: list[str] = []
        for token in TOKEN.finditer(body):
            self._take(token)

    def _take(self, token: re.Match[str]) -> None:
        inside, item = self._open[-1]
        if token["verb"] == "label":
            if inside in DISPLAYS:
                self._waiting.append(token["what"])
            else:
                self.labels[token["what"]] = item
        elif token["verb"] == "begin":
            self._open.append((token["what"], self._begun(token["what"]) or item))
        elif token["verb"] == "end":
            self._end(token["what"])
        elif token["name"]:
            self._open[-1] = (inside, f"Algorithm {token['name']}")
        elif token["mark"] in {"section", "subsection"}:
            self._begin_section(token["mark"])
        elif token["mark"] and inside in DISPLAYS:
            if token["mark"] == "\\":
                self._end_line()
            else:
                self._numbered = False

    def _begin_section(self, level: str) -> None:
        self._counts[level] += 1
        if level == "section":
            for counter in ("subsection", "equation", *self.theorems):
                self._counts[counter] = 0
        number = ".".join(str(n) for n in (self._counts["section"], self._counts["subsection"]) if n)
        self._open = [("document", f"Section {number}")]
        self.items.append(f"Section {number}")

    def _begun(self, environment: str) -> str:
        """Return the number of an environment that begins, or nothing if it has none."""
        if environment in self.theorems:
            title, counter = self.theorems[environment]
            self._counts[counter] += 1
            return f"{title} {self._counts['section']}.{self._counts[counter]}"
        if environment in FLOATS:
            self._counts[environment] += 1
            self._counts["subfigure"] = 0
            return f"{FLOATS[environment]} {self._counts[environment]}"
        if environment == "subfigure":
            self._counts["subfigure"] += 1
            return f"{self._open[-1][1]} ({'abcdefgh'[self._counts['subfigure'] - 1]})"
        return ""

    def _end(self, environment: str) -> None:
        begun, item = self._open.pop()
        assert begun == environment
        if environment in DISPLAYS:
            self._end_line()
        elif self._open and item != self._open[-1][1]:
            self.items.append(item)

    def _end_line(self) -> None:
        if self._numbered:
            self._counts["equation"] += 1
            item = f"({self._counts['section']}.{self._counts['equation']})"
            self.items.append(item)
            self.labels |= dict.fromkeys(self._waiting, item)
            self._waiting = []
        self._numbered = True
