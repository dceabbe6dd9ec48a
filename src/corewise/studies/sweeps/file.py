"""Sweep files: TOML, or a mapping of the same shape, taken apart into single trials.

Every table ``[[simulate]]``, ``[[evaluate]]`` or ``[[learn]]`` stands for all combinations of its systems,
cores, loads, policies, algorithms and seeds; ``docs/sweeps.md`` has every key.
"""

from __future__ import annotations

import json
import math
import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import Any

from corewise.errors import CorewiseError, InvalidFile, InvalidInput, nearest
from corewise.kit import checks
from corewise.kit.encodings import as_utf8
from corewise.kit.files import read_bytes
from corewise.kit.version import SAME_NUMBERS_SINCE
from corewise.learning.algorithms import ALGORITHMS
from corewise.model.files import load_system, system_to_mapping
from corewise.model.system import System
from corewise.policies.base import Policy, checked_policy, policy_named
from corewise.policies.names import is_computed
from corewise.policies.tabular import Tabular
from corewise.studies.sweeps.grid import SweepPlan, Trial

__all__ = ["load_sweep"]

_GRID = ("systems", "cores", "loads")
_COMMON = (*_GRID, "policies", "gap", "exact")
_KINDS = {
    "simulate": (*_GRID, "policies", "gap", "seeds", "departures", "whole", "known_sizes"),
    "evaluate": _COMMON,
    "learn": (
        *(*_COMMON, "seeds", "algorithms", "departures", "steps"),
        *("power", "between_alarms", "test_departures"),
    ),
}
"""The kinds of trials, and the keys that their tables may have."""

_NEEDED = {
    "simulate": ("systems", "policies", "departures"),
    "evaluate": ("systems", "policies"),
    "learn": ("systems", "algorithms", "departures", "steps"),
}
_SHARED = (*_GRID, "seeds")
"""What may stand above all tables, for those that do not say it themselves."""

_MOST_TRIALS = 1_000_000  # their rows stay in memory
_ADAPTIVE = "adaptive"  # the algorithm that looks out for changes
_OPTIMAL = "optimal"  # what is adopted at the estimates if nothing else is asked for

Table = Mapping[str, Any]


def load_sweep(source: str | os.PathLike[str] | Mapping[str, Any], *, exact: bool = False) -> SweepPlan:
    """Return the plan of a sweep.

    Parameters
    ----------
    source : path or mapping
        A TOML file, see ``docs/sweeps.md``; or a mapping of the same shape, in which ``systems`` may also be
        a mapping from names to `System`. Relative paths are relative to the file, or to the current
        directory.
    exact : bool
        Whether exact means are insisted on where a table does not say, however long they take; otherwise
        those that would take more than a minute are simulated.

    Raises
    ------
    InvalidFile, InvalidInput
        If it cannot be read, has a key that means nothing, or asks for what cannot be.
    """
    if isinstance(source, Mapping):
        return _Reader("sweep", Path(), exact).plan(source)
    path, content = Path(source), read_bytes(source)
    try:
        mapping = tomllib.loads(as_utf8(content).decode())
    except (ValueError, RecursionError) as error:  # not UTF-8, not TOML, too many digits
        raise InvalidFile(f"{path}: not valid TOML: {error}") from None
    try:
        return _Reader(str(path), path.parent, exact).plan(mapping)
    except InvalidInput as error:
        raise InvalidFile(f"{path}: {error}") from None


class _Reader:
    """Parser of a sweep file; systems are read once, however often they are named."""

    def __init__(self, name: str, folder: Path, exact: bool) -> None:
        self._name, self._folder, self._exact = name, folder, exact
        self._systems: dict[str, System] = {}
        self._saved: dict[str, str] = {}

    def plan(self, mapping: Table) -> SweepPlan:
        _require_known(mapping, ("seed", *_SHARED, *_KINDS), "sweep")
        seed = checks.whole(mapping.get("seed", 0), "seed", least=0)
        shared = {key: mapping[key] for key in _SHARED if key in mapping}
        if "seeds" in shared:
            _seeds(shared["seeds"])  # also if no table asks for them
        trials: dict[str, Trial] = {}
        for kind, known in _KINDS.items():
            for number, table in enumerate(_tables(mapping, kind), start=1):
                what = f"{kind} number {number}"
                try:
                    _require_known(table, known, "its table")
                    said = {**{key: value for key, value in shared.items() if key in known}, **table}
                    for trial in self._trials(seed, kind, said):
                        if trial.key in trials:
                            raise InvalidInput(f"asked for twice: {trial.key}")
                        trials[trial.key] = trial
                    _require_few(len(trials))
                except CorewiseError as error:
                    raise InvalidInput(f"{what}: {error}") from None
        if not trials:
            raise InvalidInput(f"nothing to do: there is no [[{']], [['.join(_KINDS)}]]")
        return SweepPlan(self._name, seed, tuple(trials.values()), self._fingerprint(seed, trials))

    def _trials(self, seed: int, kind: str, said: Table) -> Iterator[Trial]:
        for key in _NEEDED[kind]:
            if key not in said:
                raise InvalidInput(f"{key} is missing")
        policies = _texts(said.get("policies", [_OPTIMAL]), "policies")
        algorithms = _algorithms(said) if kind == "learn" else [None]
        seeds: list[int] | list[None] = [None] if kind == "evaluate" else _seeds(said.get("seeds", 1))
        numbers = _numbers(said)
        grid = self._named(said["systems"]), _varied(said, "cores"), _varied(said, "loads")
        _require_few(math.prod(map(len, (*grid, policies, algorithms, seeds))))
        for name, cores, load in product(*grid):
            system = self._varied_system(name, cores, load)
            for policy, algorithm in product(policies, algorithms):
                if kind != "simulate" or is_computed(policy) or said.get("gap"):
                    system.require_stable()
                one = Trial(
                    seed,
                    kind,
                    name,
                    system,
                    policy,
                    cores,
                    load,
                    algorithm,
                    gap=_choice(said, "gap"),
                    exact=_choice(said, "exact", self._exact) is True,
                    whole=_choice(said, "whole") is True,
                    known_sizes=_choice(said, "known_sizes") is True,
                    rule=self._rule(policy, system, kind),
                    **numbers,
                )
                yield from (replace(one, seed=number) for number in seeds)

    def _named(self, systems: object) -> list[str]:
        """Return the names of the systems, each of which is known from then on."""
        if isinstance(systems, Mapping):
            for name, system in systems.items():
                if not isinstance(system, System):
                    raise InvalidInput(f"systems: {name!r} must be a System, got {system!r}")
                if self._systems.setdefault(str(name), system) != system:
                    raise InvalidInput(f"systems: {name!r} is another system in another table")
            return [str(name) for name in systems]
        names = _texts(systems, "systems")
        for name in names:
            if name not in self._systems:
                where = name if name.startswith(("paper:", "day:")) else self._folder / name
                self._systems[name] = load_system(where)
        return names

    def _varied_system(self, name: str, cores: float | None, load: float | None) -> System:
        system = self._systems[name]
        if cores is not None:
            system = system.with_cores(cores)
        return system if load is None else system.at_load(load)

    def _rule(self, policy: str, system: System, kind: str) -> Policy | None:
        """Return the policy if no computation is needed to know it, refusing one that does not fit."""
        if is_computed(policy):
            return None
        rule = checked_policy(policy_named(policy, system, folder=self._folder), system)
        if isinstance(rule, Tabular):
            if kind == "learn":
                raise InvalidInput(f"policy {policy!r} is a saved one, made once and for all: name a rule")
            self._saved[policy] = sha256(read_bytes(self._folder / policy)).hexdigest()
        return rule

    def _fingerprint(self, seed: int, trials: Mapping[str, Trial]) -> str:
        about = {
            "version": SAME_NUMBERS_SINCE,
            "seed": seed,
            "trials": [[key, trial.gap, *(["exact"] * trial.exact)] for key, trial in trials.items()],
            "systems": {name: system_to_mapping(system) for name, system in sorted(self._systems.items())},
            "policies": self._saved,
        }
        return sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:16]


def _require_few(trials: int) -> None:
    if trials > _MOST_TRIALS:
        raise InvalidInput(f"{trials} runs are more than the {_MOST_TRIALS} that one sweep may have")


# --- single values ----------------------------------------------------------------------------


def _require_known(entry: Table, known: tuple[str, ...], what: str) -> None:
    for key in entry:
        if key not in known:
            raise InvalidInput(f"{what}: unknown key {key!r}{nearest(str(key), list(known))}")


def _tables(mapping: Table, kind: str) -> list[Table]:
    entries = mapping.get(kind, [])
    if not isinstance(entries, list) or not all(isinstance(entry, Mapping) for entry in entries):
        raise InvalidInput(f"every {kind} is a table of its own: write [[{kind}]] with two brackets")
    return entries


def _list(value: object, what: str) -> list[Any]:
    if not isinstance(value, list | tuple) or not value:
        raise InvalidInput(f"{what} must be a list with something in it, got {value!r}")
    if len({repr(item) for item in value}) < len(value):
        raise InvalidInput(f"{what} must be different from each other, got {value!r}")
    return list(value)


def _texts(value: object, what: str) -> list[str]:
    texts = _list(value, what)
    for text in texts:
        if not isinstance(text, str) or not text.isprintable() or not text.strip():
            raise InvalidInput(f"{what} must be names, got {text!r}")
    return texts


def _algorithms(said: Table) -> list[str]:
    names = _texts(said["algorithms"], "algorithms")
    for name in names:
        if name not in ALGORITHMS:
            raise InvalidInput(f"unknown algorithm {name!r}{nearest(name, list(ALGORITHMS))}")
    if "between_alarms" in said and names != [_ADAPTIVE]:
        raise InvalidInput(f"between_alarms is for {_ADAPTIVE} alone, got algorithms {names!r}")
    return names


def _seeds(value: object) -> list[int]:
    if isinstance(value, list | tuple):
        return [checks.whole(seed, "seeds", least=0) for seed in _list(value, "seeds")]
    count = checks.whole(value, "seeds")
    _require_few(count)
    return list(range(1, count + 1))


def _varied(said: Table, key: str) -> list[float] | list[None]:
    if key not in said:
        return [None]
    return [checks.positive(value, key) for value in _list(said[key], key)]


def _choice(said: Table, key: str, otherwise: bool | None = None) -> bool | None:
    chosen = said.get(key, otherwise)
    if chosen is not None and not isinstance(chosen, bool):
        raise InvalidInput(f"{key} must be true or false, got {chosen!r}")
    return chosen


def _numbers(said: Table) -> dict[str, Any]:
    found: dict[str, Any] = {
        key: checks.whole(said[key], key) for key in ("departures", "steps", "test_departures") if key in said
    }
    if "power" in said:
        found["power"] = checks.finite(said["power"], "power")
    if "between_alarms" in said:
        found["between_alarms"] = checks.positive(said["between_alarms"], "between_alarms")
    return found
