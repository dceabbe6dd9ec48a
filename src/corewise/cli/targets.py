"""The files that a verb writes: refused early if they cannot be, drawn if asked for, and named in the end."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from corewise.cli.waiting import waiting
from corewise.errors import InvalidFile, printable

__all__ = ["draw", "print_written", "require_figure", "require_target"]


def require_target(path: Path | None, *inputs: str | Path, outputs: Iterable[str | Path] = ()) -> None:
    """Refuse a file that cannot or must not be written, before the time is spent on what goes into it.

    It must be none of the `inputs`, which are read, and none of the other `outputs`, which need not exist.
    """
    if path is None:
        return
    if path.exists() and any(Path(name).exists() and path.samefile(name) for name in inputs):
        raise InvalidFile(f"{path}: is read by this command, and would be overwritten")
    if any(os.path.realpath(path) == os.path.realpath(name) for name in outputs):
        raise InvalidFile(f"{path}: is written by this command as well")
    if path.is_dir():
        raise InvalidFile(f"{path}: cannot be written: is a directory")
    if not path.parent.is_dir():
        raise InvalidFile(f"{path}: cannot be written: there is no directory {path.parent}")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise InvalidFile(f"{path}: cannot be written: permission denied")


def require_figure(path: Path | None, names: Sequence[str], *inputs: str | Path) -> None:
    """Refuse a figure that could not be drawn or written, before the time is spent on what it shows."""
    if path is None:
        return
    from corewise.plots.style import require_few_classes, require_format, require_matplotlib

    require_target(path, *inputs)
    require_matplotlib()
    require_format(path)
    require_few_classes(names)


def draw(path: Path, figure: Callable[[], Any]) -> None:
    """Draw a figure that was asked for, and write it."""
    from corewise.plots.style import save_figure

    with waiting(f"Drawing {path} ..."):
        save_figure(figure(), path)


def print_written(*files: tuple[Path | None, str]) -> None:
    """Print which files were written, and what they are."""
    for path, what in files:
        if path:
            print(printable(f"Wrote the {what} to {path}."))
