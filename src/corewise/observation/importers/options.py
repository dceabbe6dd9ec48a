"""What the user says of a log that is to be imported: in Python, as options, or in a TOML file beside it."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from corewise.errors import InvalidFile, InvalidInput, nearest
from corewise.kit import checks
from corewise.kit.files import read_text
from corewise.model.units import require_unit
from corewise.observation.importers.base import Roles, Wanted
from corewise.observation.importers.clock import TimeFormat
from corewise.observation.importers.outcomes import vocabulary

__all__ = ["ImportOptions"]

_ROLES = tuple(field.name for field in fields(Roles))
_LISTS = ("classes", "done", "unfinished")
_NUMBERS = ("pool", "most_classes")


@dataclass(frozen=True)
class ImportOptions:
    """Options of an import; what is not said is known from the format.

    Attributes
    ----------
    format : str, optional
        The format; else it is known by the content.
    roles : Roles
        Which column says what, as far as it is named.
    class_pattern : str, optional
        A regular expression: what it finds in the text of the class is the class.
    nodes : str, optional
        A second file, for formats that need one.
    zone : str, optional
        The zone of times that are written without one, such as ``"Europe/Amsterdam"``.
    time_format : str
        How times are written: a pattern such as ``"%d.%m.%Y %H:%M"``, or ``"milliseconds"``; see
        `TimeFormat`.
    unit : str
        The unit that times are to be in.
    since, until : str, optional
        When the observation opens and closes; else with the first submission and the last that is seen.
    pool : float, optional
        The cores there are; no job can hold more.
    most_classes : int
        How many classes are kept; the others become one.
    done, unfinished : tuple of str
        Words of one's own for what became of jobs.
    """

    format: str | None = None
    roles: Roles = field(default_factory=Roles)
    class_pattern: str | None = None
    nodes: str | None = None
    zone: str | None = None
    time_format: str = ""
    unit: str = "seconds"
    since: str | None = None
    until: str | None = None
    pool: float | None = None
    most_classes: int = 8
    done: tuple[str, ...] = ()
    unfinished: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        require_unit(self.unit)
        TimeFormat(self.time_format)
        if self.pool is not None:
            checks.positive(self.pool, "the pool")
        checks.within(self.most_classes, 1, 1000, "most_classes")
        try:
            re.compile(self.class_pattern or "")
        except re.error as error:
            raise InvalidInput(f"the pattern {self.class_pattern!r} cannot be used: {error}") from None

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> ImportOptions:
        """Return the options in a TOML file, under the names that they and the roles have here."""
        try:
            given = tomllib.loads(read_text(path))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise InvalidFile(f"{os.fspath(path)}: not a TOML file: {error}") from None
        try:
            return cls().with_options(**_checked(given))
        except InvalidInput as error:
            raise InvalidFile(f"{os.fspath(path)}: {error}") from None

    def with_options(self, **given: Any) -> ImportOptions:
        """Return the options with others, and with columns by their roles."""
        roles = {name: given.pop(name) for name in _ROLES if name in given}
        return replace(self, roles=replace(self.roles, **roles), **given)

    @property
    def wanted(self) -> Wanted:
        """What an importer needs to know of them."""
        words = vocabulary(self.done, self.unfinished)
        return Wanted(self.roles, self.class_pattern, self.nodes, words, TimeFormat(self.time_format))


def _checked(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a file says, with the types that options have."""
    known = [*(option.name for option in fields(ImportOptions) if option.name != "roles"), *_ROLES]
    options: dict[str, Any] = {}
    for name, value in given.items():
        if name not in known:
            raise InvalidInput(f"unknown key {name!r}{nearest(name, known)}")
        if name not in (*_LISTS, *_NUMBERS) and not isinstance(value, str):
            raise InvalidInput(f"{name} must be a text, got {value!r}")
        parts = [value] if isinstance(value, str) else value
        if name in _LISTS and not (isinstance(parts, list) and all(isinstance(p, str) for p in parts)):
            raise InvalidInput(f"{name} must be a list of texts, got {value!r}")
        options[name] = tuple(parts) if name in _LISTS else value
    return options
