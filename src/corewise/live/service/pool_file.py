"""Pool files: a system file that also says how to control it and what the service puts up with.

::

    cores = 64

    [[class]]                       # as in a system file; rates that are not given are learned
    name = "training"
    speedup = { family = "amdahl", p = 0.5 }

    [control]                       # optional
    patience = 30.0                 # seconds that a job may take to hold what it is instructed to
    least_seen = 10                 # departures of a class before it is part of a policy other than EQUI
    decide = "classes"              # or "jobs": cores of single jobs of classes that report progress
    window = 50                     # departures before the first look at what was learned
    lateness = 300.0                # seconds that an event may be late and still be learned from

    [service]                       # optional
    largest_body = 1048576          # bytes of a request
    most_connections = 200
    most_readers = 100              # requests without the token that are answered at a time
    most_requests = 5000            # a second, of one address
    hosts = ["pool.example.org"]    # names by which a proxy calls the service; then reading needs the token
    root_path = "/corewise"         # where a proxy that passes paths on as they are has the service
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from typing import Any

from corewise.errors import InvalidFile, InvalidInput, nearest
from corewise.kit import checks
from corewise.kit.files import read_bytes
from corewise.learning.algorithms import FIRST_WINDOW
from corewise.live.state.configuration import Options
from corewise.model.files import RATES, SYSTEM_KEYS, system_of_tables, tables_of
from corewise.model.system import System
from corewise.model.units import require_seconds
from corewise.policies.rounding import require_whole

__all__ = ["Limits", "PoolFile", "load_pool"]

_LONGEST_LATENESS = 86_400.0  # seconds
_LONGEST_WINDOW = 100_000  # departures
_PATIENCE = 30.0  # seconds: a scheduler that moves nodes takes some
_LATENESS = 300.0  # seconds: clocks two minutes apart, and a request that was repeated for some more
_PREFIX = re.compile(r"(/[A-Za-z0-9._~-]+)+")


@dataclass(frozen=True)
class Limits:
    """Limits of the service.

    Attributes
    ----------
    largest_body : int
        Bytes of a request.
    most_connections : int
        Connections at a time; where there are more, those that have not shown the token make room.
    most_readers : int
        Requests without the token, such as streams, that are answered at a time.
    most_requests : float
        Requests a second from one address, with the token and without; twice as many at once.
    hosts : tuple of str
        Names, besides those of this machine, by which the service may be called, with a port if it is not
        that of the scheme.
    root_path : str
        What paths begin with where a proxy passes them on as they are.
    """

    largest_body: int = 1 << 20
    most_connections: int = 200
    most_readers: int = 100
    most_requests: float = 5000.0
    hosts: tuple[str, ...] = ()
    root_path: str = ""

    def __post_init__(self) -> None:
        checks.count(self.largest_body, "largest_body")
        checks.count(self.most_connections, "most_connections")
        checks.count(self.most_readers, "most_readers")
        checks.positive(self.most_requests, "most_requests")
        named = self.hosts if isinstance(self.hosts, list | tuple) else [self.hosts]
        for host in named:
            if not isinstance(host, str) or not host:
                raise InvalidInput(
                    f"hosts must be names such as 'pool.example.org', got {checks.shown(host)}"
                )
        object.__setattr__(self, "hosts", tuple(named))
        if not isinstance(self.root_path, str) or (self.root_path and not _PREFIX.fullmatch(self.root_path)):
            raise InvalidInput(f"root_path must be like '/corewise', got {checks.shown(self.root_path)}")


@dataclass(frozen=True)
class PoolFile:
    """What a pool file says.

    Attributes
    ----------
    system : System
        The cores and what is known of the classes.
    options : Options
        Options of the controller.
    window : int
        Departures between two looks at what was learned.
    limits : Limits
        Limits of the service.
    path : str
        The file.
    """

    system: System
    options: Options
    window: int
    limits: Limits
    path: str


def load_pool(path: str | os.PathLike[str]) -> PoolFile:
    """Return what a pool file says; `InvalidFile` names the file, the key and the value if it cannot be."""
    name = os.fspath(path)
    tables = tables_of(read_bytes(path), name)
    try:
        _require_known(tables, (*SYSTEM_KEYS, "control", "service"), "pool")
        control = _known(
            _table(tables, "control"), ["patience", "least_seen", "window", "lateness", "decide"], "control"
        )
        window = checks.count(control.pop("window", FIRST_WINDOW), "control: window")
        checks.within(window, 1, _LONGEST_WINDOW, "control: window")
        options = _options(control)
        limits = Limits(**_known(_table(tables, "service"), [row.name for row in fields(Limits)], "service"))
    except InvalidInput as error:
        raise InvalidFile(f"{name}: {error}") from None
    system = system_of_tables(tables, name, RATES)
    try:
        require_whole(system)
        require_seconds(system.unit)
    except InvalidInput as error:
        raise InvalidFile(f"{name}: {error}") from None
    return PoolFile(system, options, window, limits, name)


def _options(control: Mapping[str, Any]) -> Options:
    given = {"patience": _PATIENCE, "lateness": _LATENESS, **control}
    checks.positive(given["patience"], "control: patience")
    checks.within(given["lateness"], 0.0, _LONGEST_LATENESS, "control: lateness")
    if "least_seen" in given:
        checks.count(given["least_seen"], "control: least_seen", least=0)
    return Options(**given, late_moves=True)


def _table(tables: dict[str, Any], key: str) -> Mapping[str, Any]:
    found = tables.pop(key, {})
    if not isinstance(found, Mapping):
        raise InvalidInput(f"{key} is a table: write [{key}], got {checks.shown(found)}")
    return found


def _known(table: Mapping[str, Any], known: Collection[str], what: str) -> dict[str, Any]:
    _require_known(table, known, what)
    return dict(table)


def _require_known(table: Mapping[str, Any], known: Collection[str], what: str) -> None:
    for key in table:
        if key not in known:
            raise InvalidInput(f"{what}: unknown key {key!r}{nearest(key, list(known))}")
