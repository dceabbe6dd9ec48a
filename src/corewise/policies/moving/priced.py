"""The price rule as a table: a policy of whole cores with the costs-to-go of its jobs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from corewise.kit.archive import packed, unpacked, usable
from corewise.kit.arrays import Floats
from corewise.model.files import system_from_mapping, system_to_mapping
from corewise.model.system import System
from corewise.policies.base import BoundPolicy
from corewise.policies.moving.rule import PriceTables, WidthRule, Widths, job_times
from corewise.policies.tabular import Tabular

__all__ = ["PricedTabular"]

_FORMAT = "corewise priced policy 1"


@dataclass(frozen=True, eq=False)
class PricedTabular:
    """Tabular price rule: what each class holds where moves are free, and the prices of moves.

    Attributes
    ----------
    base : Tabular
        The optimum in whole cores where moves are free.
    tables : PriceTables
        What single jobs cost.
    """

    base: Tabular
    tables: PriceTables
    name: str = "priced"

    @property
    def system(self) -> System:
        """The system that it was made for."""
        return self.base.system

    def allocate(self, counts: ArrayLike) -> Floats:
        """Return the cores per class for counts of jobs where moves are free, both of shape (…, K)."""
        return self.base.allocate(counts)

    def require_fit(self, system: System) -> None:
        """Raise `InvalidPolicy` unless `system` has the same cores and class names in order."""
        self.base.require_fit(system)

    def on(self, system: System) -> BoundPolicy:
        """Return the policy, if it fits `system`; it stays that of the system it was made for."""
        made_for = self.base.system
        pauses = np.array([known.resize_pause for known in made_for.classes])
        rule = WidthRule("price", pauses, job_times(made_for, int(made_for.cores)), self.tables)
        return BoundPolicy(made_for, self.name, Widths(self.base.on(system).decision, rule))

    def to_bytes(self, name: str | Path = "a policy") -> bytes:
        """Return the policy as bytes, the same for the same policy; `name` is for errors."""
        about = {"system": system_to_mapping(self.base.system)}
        return packed(name, _FORMAT, about, {"cores": self.base.cores, **self.tables.named()})

    @classmethod
    def from_bytes(cls, content: bytes, name: str | Path = "a policy") -> PricedTabular:
        """Return the policy that `to_bytes` has written; `name` is for errors."""
        about, arrays = unpacked(name, content, _FORMAT, "priced policy")
        with usable(name, "priced policy"):
            system = system_from_mapping(about["system"])
            base = Tabular(system, arrays["cores"].astype(np.float64, casting="safe"), True, "optimal")
            tables = PriceTables(
                arrays["capacity"].astype(np.int64, casting="safe"),
                *(
                    arrays[key].astype(np.float64, casting="safe")
                    for key in ("running", "paused", "waiting", "idle")
                ),
            )
            return cls(base, tables)
