"""Runs that are kept in a file as they are made: one that takes hours can be stopped, and goes on."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["KeptRuns"]


@dataclass
class KeptRuns:
    """Runs by what they are of, kept in a file with a line of JSON each, or nowhere.

    Attributes
    ----------
    file : Path or None
        The file; what is there already is not run again.
    """

    file: Path | None
    _done: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        lines = self.file.read_text().splitlines() if self.file is not None and self.file.exists() else []
        for row in map(json.loads, lines):
            self._done[_key(row["of"])] = row["run"]

    def run(self, of: list[Any], make: Callable[[], Any]) -> Any:
        """Return the run of something, plain values, which is made if it is not there."""
        key = _key(of)
        if key not in self._done:
            self._done[key] = made = make()
            if self.file is not None:
                with self.file.open("a") as lines:
                    lines.write(json.dumps({"of": of, "run": made}) + "\n")
        return self._done[key]


def _key(of: list[Any]) -> str:
    return json.dumps(of)
