"""System files: TOML on disk to a `System` and back, and the systems that come with the package.

A file says how many cores there are and, class by class, what arrives and how it scales::

    cores = 30
    unit = "hours"                              # optional: what times are in, and rates per

    [[class]]
    name = "one"
    arrival_rate = 1.4
    size_rate = 2.5
    speedup = { family = "amdahl", p = 0.3 }
    weight = 1.0                                # optional
    sizes = { law = "lognormal", cv2 = 4.0 }    # optional: exponential if not given
    arrivals = { law = "erlang", stages = 2 }   # optional: the times between arrivals, exponential likewise
    min_cores = 2                             # optional: a job runs on no fewer cores
    max_cores = 16                             # optional: and uses no more
    resize_pause = 0.05                         # optional: how long a job stands still when its cores change

    [[change]]                                  # optional: the curve of a class changes at a time
    time = 600000.0
    class = "one"
    speedup = { family = "amdahl", p = 0.5 }

Reading goes through a plain mapping of the same shape, which also is what a saved policy stores. The values
themselves are checked where they belong, in `JobClass`, `System` and the curves; here every message gains the
class and the file it is about.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import MISSING, fields
from importlib import resources
from pathlib import Path
from typing import Any

from corewise.errors import InvalidCurve, InvalidFile, InvalidInput, InvalidSystem, nearest
from corewise.kit.encodings import as_utf8
from corewise.kit.files import read_bytes, read_column, write_bytes
from corewise.kit.renamed import new_names, warn_renamed
from corewise.model.gpu_day import gpu_day
from corewise.model.job_class import RENAMED, Change, JobClass
from corewise.model.sizes import (
    Deterministic,
    Erlang,
    Exponential,
    Hyperexponential,
    Lognormal,
    Pareto,
    SizeLaw,
    Weibull,
)
from corewise.model.speedup import FAMILIES, ByProgress, SpeedUp
from corewise.model.system import System
from corewise.model.tabulated_sizes import Empirical, PiecewiseExponential

__all__ = [
    "PACKAGED",
    "POOL_KEYS",
    "RATES",
    "SYSTEM_KEYS",
    "load_system",
    "packaged",
    "save_system",
    "system_from_mapping",
    "system_of_tables",
    "system_to_mapping",
    "system_to_text",
    "tables_of",
]

PACKAGED = ("paper:1", "paper:2", "paper:3", "paper:4", "paper:drift", "day:gpu")
"""The systems that come with the package: Examples 1-4 of the paper's Table 1, its changing experiment, and a
made-up day on a GPU cluster."""

_LAWS: Mapping[str, type[SizeLaw]] = {
    kind.law: kind
    for kind in (
        Exponential,
        Deterministic,
        Erlang,
        Hyperexponential,
        Lognormal,
        Weibull,
        Pareto,
        Empirical,
        PiecewiseExponential,
    )
}
RATES = ("arrival_rate", "size_rate")
"""What a class may lack where it can be learned."""

SYSTEM_KEYS = ("cores", "unit", "class", "change")
"""The tables and keys of a system file."""

POOL_KEYS = ("control", "service")
"""The tables that the pool file of a service has besides."""

_MOVE_KEYS: Mapping[str, object] = {"min_cores": 1, "max_cores": None, "resize_pause": 0.0}
_CLASS_KEYS = ("name", "arrival_rate", "size_rate", "speedup", "weight", "sizes", "arrivals", *_MOVE_KEYS)
_CLASS_REQUIRED = ("name", "arrival_rate", "size_rate", "speedup")
_LAW_KEYS = ("sizes", "arrivals")
_ANY_CURVE = {"family": "amdahl", "p": 0.5}  # in the place of one that is to be found
_CHANGE_KEYS = ("time", "class", "speedup")


def load_system(
    source: str | os.PathLike[str],
    *,
    optional: Collection[str] = (),
    arrivals_optional: bool | None = None,
) -> System:
    """Return the system of a TOML file or of a packaged name.

    Parameters
    ----------
    source : str or path
        A packaged name (``"paper:1"`` to ``"paper:4"``, ``"paper:drift"``, ``"day:gpu"``) or the path of a
        TOML file.
    optional : collection of str, optional
        What classes may lack since it is to be learned: ``"arrival_rate"``, ``"size_rate"``, and
        ``"speedup"``, in the place of which there is then some curve.
    arrivals_optional : bool, optional
        Deprecated: True is ``optional=["arrival_rate"]``.

    Raises
    ------
    InvalidFile
        If the file cannot be read or does not describe a system; the message names the file, the class and
        the value.

    Examples
    --------
    >>> import corewise as cw
    >>> system = cw.load_system("paper:1")
    >>> system.cores, system.names
    (30.0, ['one', 'two'])
    >>> system["two"].speedup
    Amdahl(p=0.8)
    """
    if isinstance(source, str) and source.startswith(("paper:", "day:")):
        return packaged(source)
    if not isinstance(source, str | os.PathLike):
        raise InvalidFile(f"expected the path of a system file or a packaged name, got {source!r}")
    try:
        content = read_bytes(source)
    except InvalidFile as error:
        if isinstance(error.__cause__, FileNotFoundError):
            raise InvalidFile(f"{error}, nor is it a packaged system ({', '.join(PACKAGED)})") from None
        raise
    if arrivals_optional is not None:
        warn_renamed("arrivals_optional", 'optional=["arrival_rate"]')
    return _parse(content, os.fspath(source), ("arrival_rate", *optional) if arrivals_optional else optional)


def packaged(name: str) -> System:
    """Return the system of that name that comes with the package; `PACKAGED` lists them."""
    if name not in PACKAGED:
        hint = nearest(name, list(PACKAGED))
        known = "" if hint.startswith("; known") else f" (known: {', '.join(PACKAGED)})"
        raise InvalidFile(f"unknown packaged system {name!r}{hint}{known}")
    if name == "day:gpu":
        return gpu_day()
    file = resources.files("corewise.model").joinpath("systems", f"{name.replace(':', '-')}.toml")
    return _parse(file.read_bytes(), name)


def save_system(system: System, path: str | os.PathLike[str]) -> None:
    """Write a system as a TOML file that `load_system` reads back as an equal system.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import corewise as cw
    >>> system = cw.load_system("paper:1")
    >>> with TemporaryDirectory() as folder:
    ...     cw.save_system(system, Path(folder) / "system.toml")
    ...     print(cw.load_system(Path(folder) / "system.toml") == system)
    True
    """
    write_bytes(path, system_to_text(system).encode())


def system_to_text(system: System) -> str:
    """Return a system as the text of its file."""
    mapping = system_to_mapping(system)
    lines = [f"{key} = {_toml(mapping[key])}" for key in ("cores", "unit") if key in mapping]
    for table in ("class", "change"):
        for entry in mapping.get(table, ()):
            lines += ["", f"[[{table}]]", *(f"{key} = {_toml(value)}" for key, value in entry.items())]
    return "\n".join(lines) + "\n"


# --- mapping <-> system -----------------------------------------------------------------------


def system_to_mapping(system: System) -> dict[str, Any]:
    """Return the system as a plain mapping of the file's shape, which JSON can hold."""
    if not isinstance(system, System):
        raise InvalidSystem(f"expected a System, got {system!r}")
    mapping: dict[str, Any] = {
        "cores": int(system.cores) if system.cores.is_integer() else system.cores,
        **({"unit": system.unit} if system.unit else {}),
        "class": [_class_to_mapping(job_class) for job_class in system.classes],
    }
    if system.changes:
        mapping["change"] = [
            {
                "time": float(change.time),
                "class": change.name,
                "speedup": _curve_to_mapping(change.speedup, change.name),
            }
            for change in system.changes
        ]
    return mapping


def _class_to_mapping(job_class: JobClass) -> dict[str, Any]:
    entry = {
        "name": _writable(job_class.name),
        "arrival_rate": job_class.arrival_rate,
        "size_rate": job_class.size_rate,
        "speedup": _curve_to_mapping(job_class.speedup, job_class.name),
        "weight": job_class.weight,
        **{
            key: {"law": law.law, **law.parameters}
            for key in _LAW_KEYS
            if type(law := getattr(job_class, key)) is not Exponential
        },
        **{key: given for key, usual in _MOVE_KEYS.items() if (given := getattr(job_class, key)) != usual},
    }
    return {key: value for key, value in entry.items() if value is not None}


def system_from_mapping(mapping: Mapping[str, Any], *, optional: Collection[str] = ()) -> System:
    """Return the system that a mapping of the file's shape describes; some rates may be `optional`."""
    if not isinstance(mapping, Mapping):
        raise InvalidSystem(f"a system is described by a mapping, got {mapping!r}")
    for key in POOL_KEYS:
        if key in mapping:
            raise InvalidSystem(
                f"system: [{key}] is of a pool file, which corewise serve and corewise estimate read; a "
                f"system file has {', '.join(SYSTEM_KEYS)}"
            )
    _require_known(mapping, SYSTEM_KEYS, "system")
    _require_all(mapping, ("cores",), "system")
    tables = _tables(mapping, "class")
    missing = {key: _ANY_CURVE if key == "speedup" else None for key in _rates(optional)}
    tables = [{**missing, **entry} for entry in tables]
    classes = [_class_from(entry, i) for i, entry in enumerate(tables, start=1)]
    changes = [_change_from(entry, i) for i, entry in enumerate(_tables(mapping, "change"), start=1)]
    return System(mapping["cores"], classes, changes, mapping.get("unit"))


def _rates(optional: Collection[str]) -> list[str]:
    """Return the rates that may be missing."""
    for name in optional:
        if name not in (*RATES, "speedup"):
            raise InvalidInput(f"optional: unknown rate {name!r}{nearest(str(name), [*RATES, 'speedup'])}")
    return list(optional)


def _tables(mapping: Mapping[str, Any], key: str) -> Iterable[Mapping[str, Any]]:
    entries = mapping.get(key, [])
    if not isinstance(entries, list) or not all(isinstance(entry, Mapping) for entry in entries):
        raise InvalidSystem(
            f"every {key} is a table of its own: write [[{key}]] with two brackets, got {entries!r}"
        )
    return entries


def _class_from(entry: Mapping[str, Any], position: int) -> JobClass:
    what = f"class {entry['name']!r}" if entry.get("name") else f"class number {position}"
    entry = new_names(entry, RENAMED, InvalidSystem)
    _require_known(entry, _CLASS_KEYS, what)
    _require_all(entry, _CLASS_REQUIRED, what)
    if not entry["name"]:
        raise InvalidSystem(f"{what}: its name must not be empty, got {entry['name']!r}")
    laws = {key: _law_from(entry[key], f"{what}: {key}") for key in _LAW_KEYS if key in entry}
    return JobClass(**{**entry, "speedup": _curve_from(entry["speedup"], what), **laws})


def _change_from(entry: Mapping[str, Any], position: int) -> Change:
    what = f"change number {position}"
    _require_known(entry, _CHANGE_KEYS, what)
    _require_all(entry, _CHANGE_KEYS, what)
    if not isinstance(entry["class"], str):
        raise InvalidSystem(f"{what}: class must be the name of a class, got {entry['class']!r}")
    what = f"{what}, of class {entry['class']!r}"
    return Change(entry["time"], entry["class"], _curve_from(entry["speedup"], what))


def _curve_from(entry: object, what: str) -> SpeedUp:
    if not isinstance(entry, Mapping):
        raise InvalidCurve(f'{what}: speedup must be like {{ family = "amdahl", p = 0.3 }}, got {entry!r}')
    _require_all(entry, ("family",), f"{what}: speedup")
    family = entry["family"]
    if not isinstance(family, str) or family not in FAMILIES:
        hint = nearest(family.lower(), list(FAMILIES)) if isinstance(family, str) else ""
        raise InvalidCurve(f"{what}: unknown speed-up family {family!r}{hint}")
    curve = FAMILIES[family]
    names = _parameter_names(curve)
    _require_known(entry, ("family", *names), f"{what}: {family} speedup")
    _require_all(entry, names, f"{what}: {family} speedup")
    values = {name: entry[name] for name in names}
    if curve is ByProgress and isinstance(entry["curves"], list):
        parts = enumerate(entry["curves"], start=1)
        values["curves"] = [_curve_from(part, f"{what}: curve number {k}") for k, part in parts]
    try:
        return curve(**values)
    except InvalidCurve as error:
        raise InvalidCurve(f"{what}: {error}") from None


def _law_from(entry: object, what: str) -> SizeLaw:
    if not isinstance(entry, Mapping):
        raise InvalidSystem(f'{what} must be like {{ law = "lognormal", cv2 = 4.0 }}, got {entry!r}')
    _require_all(entry, ("law",), what)
    name = entry["law"]
    if not isinstance(name, str) or name not in _LAWS:
        hint = nearest(name.lower(), list(_LAWS)) if isinstance(name, str) else ""
        raise InvalidSystem(f"{what}: unknown law {name!r}{hint}")
    law = _LAWS[name]
    known = fields(law)
    _require_known(entry, ("law", *(field.name for field in known)), f"{what}: {name}")
    _require_all(entry, tuple(field.name for field in known if field.default is MISSING), f"{what}: {name}")
    try:
        return law(**{key: value for key, value in entry.items() if key != "law"})
    except InvalidSystem as error:
        raise InvalidSystem(f"{what}: {error}") from None


def _curve_to_mapping(curve: SpeedUp, name: str) -> dict[str, Any]:
    for part in (curve, *(part for _, part in curve.phases)):
        if FAMILIES.get(part.family) is not type(part):
            raise InvalidCurve(
                f"class {name!r}: a file can hold the families {', '.join(FAMILIES)}, "
                f"not {type(part).__name__}"
            )
    return curve.to_dict()


def _parameter_names(curve: type[SpeedUp]) -> tuple[str, ...]:
    return tuple(field.name for field in fields(curve))  # type: ignore[arg-type]  # every family is a dataclass


def _require_known(entry: Mapping[str, Any], known: tuple[str, ...], what: str) -> None:
    for key in entry:
        if key not in known:
            raise InvalidSystem(f"{what}: unknown key {key!r}{nearest(key, list(known))}")


def _require_all(entry: Mapping[str, Any], needed: tuple[str, ...], what: str) -> None:
    for key in needed:
        if key not in entry:
            found = "; corewise estimate finds it from an event log" if key in RATES else ""
            found = (
                "; corewise estimate --family auto finds it from an event log" if key == "speedup" else found
            )
            raise InvalidSystem(f"{what}: {key} is missing{found}")


# --- text <-> mapping -------------------------------------------------------------------------


def _parse(content: bytes, name: str, optional: Collection[str] = ()) -> System:
    return system_of_tables(tables_of(content, name), name, optional)


def tables_of(content: bytes, name: str) -> dict[str, Any]:
    """Return the tables of a TOML file, of which `name` is what to call it in errors."""
    content = as_utf8(content)
    if b"\0" in content:
        raise InvalidFile(f"{name}: a binary file, not TOML")
    try:
        return tomllib.loads(content.decode())
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InvalidFile(
            f"{name}: not UTF-8 text, byte 0x{content[error.start]:02x} in line {line}"
        ) from None
    except RecursionError:
        raise InvalidFile(f"{name}: not a system file, it is nested too deeply") from None
    except ValueError as error:  # TOMLDecodeError, and Python's own limit on digits
        raise InvalidFile(f"{name}: not valid TOML: {error}") from None


def system_of_tables(tables: dict[str, Any], name: str, optional: Collection[str] = ()) -> System:
    """Return the system of the tables of a file, beside which files that they name are looked for."""
    try:
        _read_sizes(tables, Path(name).parent)
        return system_from_mapping(tables, optional=optional)
    except InvalidInput as error:
        raise InvalidFile(f"{name}: {error}") from None


def _read_sizes(mapping: dict[str, Any], folder: Path) -> None:
    """Replace the file of an empirical distribution, relative to the system's, by its values."""
    for entry in _tables(mapping, "class"):
        for key in _LAW_KEYS:
            law = entry.get(key)
            if not isinstance(law, dict) or "file" not in law:
                continue
            what = f"class {entry.get('name')!r}: {key}"
            _require_known(law, ("law", "file", "column"), what)
            file, column = law.pop("file"), law.pop("column", None)
            if not isinstance(file, str) or not (column is None or isinstance(column, str)):
                raise InvalidSystem(f"{what}: file and column must be text, got {file!r} and {column!r}")
            try:
                law["values"] = read_column(folder / file, column)
            except InvalidFile as error:
                raise InvalidSystem(f"{what}: {error}") from None


def _writable(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidSystem(f"class name {text!r} cannot be written as UTF-8") from None
    return text


def _toml(value: object) -> str:
    """Return a value as TOML; floats by repr, so that they come back bit for bit."""
    match value:
        case str():
            # A JSON string is a TOML string, but for the one control character that JSON leaves as it is.
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case dict():
            return "{ " + ", ".join(f"{key} = {_toml(item)}" for key, item in value.items()) + " }"
        case list():
            return "[" + ", ".join(_toml(item) for item in value) + "]"
    return repr(value)
