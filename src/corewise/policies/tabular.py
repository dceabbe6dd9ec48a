"""A policy as a table: what a solver returns, with a rule for states outside its box."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import overload

import numpy as np
from numpy.typing import ArrayLike

from corewise.errors import InvalidPolicy
from corewise.kit.archive import packed, unpacked, usable
from corewise.kit.arrays import Floats, Ints
from corewise.kit.files import read_bytes, write_bytes
from corewise.kit.report import Summarised
from corewise.kit.values import ByValue
from corewise.model.files import system_from_mapping, system_to_mapping
from corewise.model.system import System, require_system
from corewise.policies.base import BoundPolicy, require_fit
from corewise.policies.decisions import Decision, StateTable
from corewise.policies.whittle import Whittle
from corewise.policies.whole import WholeCores

__all__ = ["Tabular"]

_FORMAT = "corewise policy 1"
_WHAT = "saved policy"


@dataclass(frozen=True, eq=False, repr=False)
class Tabular(ByValue, Summarised):
    """Tabular policy: cores per class for every state of a box; outside it, the Whittle rule of its system.

    Attributes
    ----------
    system : System
        The system the table was made for.
    cores : ndarray
        Cores per class, shape (K, capacity_1 + 1, …, capacity_K + 1).
    whole_cores : bool
        Whether the table, and so the rule outside it, holds whole cores.
    label : str
        What to call the policy.

    Examples
    --------
    >>> import corewise as cw
    >>> system = cw.load_system("paper:1")
    >>> policy = cw.solve(system).policy
    >>> policy.allocate([1, 5]).round(3)
    array([ 2.067, 27.933])
    >>> policy.capacity == cw.solve(system).capacity
    True
    """

    system: System
    cores: Floats
    whole_cores: bool = False
    label: str = "tabular"

    def __post_init__(self) -> None:
        """Check that the table is a split of the cores."""
        require_system(self.system)
        try:
            table = np.array(self.cores, dtype=np.float64)
        except (TypeError, ValueError):
            raise InvalidPolicy(
                f"a table must be an array of cores, got {type(self.cores).__name__}"
            ) from None
        classes, cores = len(self.system.classes), self.system.cores
        if table.ndim != classes + 1 or table.shape[0] != classes or table.size == 0:
            raise InvalidPolicy(f"a table for {classes} classes cannot have shape {table.shape}")
        total, usable_cores = table.sum(axis=0), self._usable_cores(table.shape[1:])
        short, above = usable_cores - total > 1e-6 * cores, total - cores > 1e-6 * cores
        if not np.all(table >= 0.0) or np.any((short | above).ravel()[1:]):
            raise InvalidPolicy(f"the cores of some state of the table do not sum to {cores:g}")
        for i, name in enumerate(self.system.names):
            if np.any(table[i].take(0, axis=i) != 0.0):
                raise InvalidPolicy(f"the table gives cores to class {name!r} where it has no jobs")
        if self.whole_cores and np.any(table != np.rint(table)):
            raise InvalidPolicy("a table of whole cores holds fractions of cores")
        table.setflags(write=False)
        object.__setattr__(self, "cores", table)

    def _usable_cores(self, shape: tuple[int, ...]) -> Floats:
        """Return the cores that jobs can hold in every state: all, unless each has a `max_cores`."""
        usable_cores = np.zeros(())
        for jobs, most in zip(np.indices(shape, sparse=True), self.system.max_cores, strict=True):
            usable_cores = usable_cores + np.where(jobs > 0, np.maximum(jobs, 1) * most, 0.0)
        return np.minimum(usable_cores, self.system.cores)

    @property
    def name(self) -> str:
        """What to call the policy in a table."""
        return self.label

    @property
    def capacity(self) -> tuple[int, ...]:
        """The largest counts in the table."""
        return tuple(n - 1 for n in self.cores.shape[1:])

    def require_fit(self, system: System) -> None:
        """Raise `InvalidPolicy` unless `system` has the same cores and class names in order."""
        require_fit(self.system, system)

    def on(self, system: System) -> BoundPolicy:
        """Return the policy, if it fits `system`; it stays that of the system it was made for."""
        self.require_fit(system)
        return BoundPolicy(self.system, self.name, self._decision)

    @cached_property
    def _decision(self) -> StateTable:
        return StateTable(self.cores, partial(_outside, self.system, self.whole_cores))

    @overload
    def allocate(self, counts: Mapping[str, int]) -> dict[str, float]: ...
    @overload
    def allocate(self, counts: ArrayLike) -> Floats: ...
    def allocate(self, counts: Mapping[str, int] | ArrayLike) -> dict[str, float] | Floats:
        """Return the cores per class for counts of jobs, both of shape (…, K), or both by class name."""
        return self.on(self.system).allocate(counts)

    def __reduce__(self) -> tuple[type[Tabular], tuple[System, Floats, bool, str]]:
        """Return what to send to another process: not the rule outside the table, which is made there."""
        return Tabular, (self.system, self.cores, self.whole_cores, self.label)

    def save(self, path: str | Path) -> None:
        """Write the policy and the system it was made for to a file."""
        write_bytes(path, self.to_bytes(path))

    @classmethod
    def load(cls, path: str | Path) -> Tabular:
        """Read a policy written by `save`."""
        return cls.from_bytes(read_bytes(path), path)

    def to_bytes(self, name: str | Path = "a policy") -> bytes:
        """Return what `save` writes, the same bytes for the same policy; `name` is for errors."""
        about = {
            "label": self.label,
            "whole_cores": self.whole_cores,
            "system": system_to_mapping(self.system),
        }
        return packed(name, _FORMAT, about, {"cores": self.cores})

    @classmethod
    def from_bytes(cls, content: bytes, name: str | Path = "a policy") -> Tabular:
        """Return the policy that `to_bytes` has written; `name` is for errors."""
        about, arrays = unpacked(name, content, _FORMAT, _WHAT)
        with usable(name, _WHAT):
            system, cores = system_from_mapping(about["system"]), arrays["cores"]
            return cls(
                system,
                cores.astype(np.float64, casting="safe"),
                bool(about["whole_cores"]),
                str(about["label"]),
            )

    def _summary(self) -> Mapping[str, object]:
        made_for = {"classes": tuple(self.system.names), "cores": self.system.cores}
        return {"name": self.name, **made_for, "capacity": self.capacity}

    def _values(self) -> Mapping[str, object]:
        return self._summary()

    def _content(self) -> dict[str, Floats | Ints]:
        """Return one row for each state of the table."""
        classes = list(enumerate(self.system.names))
        jobs = np.indices(self.cores.shape[1:]).reshape(len(classes), -1)
        held = self.cores.reshape(len(classes), -1)
        return {f"jobs.{name}": jobs[i] for i, name in classes} | {
            f"cores.{name}": held[i] for i, name in classes
        }


def _outside(system: System, whole_cores: bool) -> Decision:
    """Return the decision for states outside a table: the Whittle rule, in whole cores if the table is."""
    return (WholeCores(Whittle()) if whole_cores else Whittle()).on(system).decision
