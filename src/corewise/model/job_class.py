"""Job classes: jobs that arrive, work and scale alike.

Paper: section 2.1. The paper's λ and α are the classes' own arrival rates, λ_1 = αλ and λ_2 = (1 − α)λ.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, wraps
from typing import Any, TypeVar

import numpy as np

from corewise.errors import InvalidSystem
from corewise.kit import checks
from corewise.kit.arrays import Floats
from corewise.kit.renamed import new_names, warn_renamed
from corewise.kit.report import Summarised
from corewise.kit.unit_labels import time_suffix
from corewise.model.capped import Capped
from corewise.model.sizes import Exponential, SizeLaw
from corewise.model.speedup import ByProgress, SpeedUp

__all__ = ["EXPONENTIAL", "FOUND_BY", "RENAMED", "Change", "JobClass"]

EXPONENTIAL = Exponential()
_ONE_CORE, _NO_PAUSE = 1, 0.0  # how jobs move if nothing is said
FOUND_BY = "; estimate finds it from an event log"
"""What to say where a rate is not known."""
RENAMED = {"least_cores": "min_cores", "most_cores": "max_cores"}
"""Fields of a class by their spelling before 0.3, which is read until 1.0."""


_Kind = TypeVar("_Kind", bound=type)


def _reads_old_names(kind: _Kind) -> _Kind:
    """Let a class be made with the old spelling of its fields, and have them read under it."""
    make: Callable[..., None] = kind.__init__  # type: ignore[misc]  # of the class itself

    @wraps(make)
    def init(self: object, *args: Any, **given: Any) -> None:
        if not RENAMED.keys().isdisjoint(given):
            given = new_names(given, RENAMED, InvalidSystem)
        make(self, *args, **given)

    def read(self: object, name: str) -> Any:
        if name not in RENAMED:
            raise AttributeError(f"a JobClass has no attribute {name!r}", name=name, obj=self)
        warn_renamed(f"JobClass.{name}", f"JobClass.{RENAMED[name]}")
        return getattr(self, RENAMED[name])

    kind.__init__ = init  # type: ignore[misc]
    setattr(kind, "__getattr__", read)  # noqa: B010  # types should not know of it
    return kind


@_reads_old_names
@dataclass(frozen=True, repr=False)
class JobClass(Summarised):
    """Jobs that arrive, work and scale alike.

    Parameters
    ----------
    name : str
        What to call the class.
    arrival_rate : float, optional
        λ, jobs per unit of time; None if it is not known, which is enough where it can be learned.
    size_rate : float, optional
        μ, one over the mean size; a job's size is the time it would take on one core. None if it is not
        known, which is enough where it can be learned.
    speedup : SpeedUp
        s(z), how fast a job runs on z cores. It must be given: ``JobClass("etl", speedup=Amdahl(0.5))``.
    weight : float, optional
        h, what one such job in the system costs per unit of time.
    sizes : SizeLaw, optional
        Distribution of job sizes, scaled to mean 1/μ; exponential if not given, as everything exact assumes.
    arrivals : SizeLaw, optional
        Distribution of the times between arrivals, scaled to mean 1/λ; exponential if not given: Poisson
        arrivals.
    min_cores : int, optional
        The fewest cores that a job runs on; with fewer it waits. Exact numbers are for jobs that run on any
        share of a core, and take no notice: it matters where jobs hold whole cores, in simulations with
        moving costs and in live pools.
    max_cores : int, optional
        The most cores that a job can use: on more it is no faster, and policies by price (greedy, Whittle,
        the optimum) give it no more.
    resize_pause : float, optional
        δ, how long a job that runs stands still when its cores change. Exact numbers are for free moves, and
        take no notice of it either.

    Examples
    --------
    >>> import corewise as cw
    >>> etl = cw.JobClass("etl", arrival_rate=4.0, size_rate=1.0, speedup=cw.Amdahl(0.35))
    >>> etl.speedup.rate([2, 4]).round(4)
    array([1.2121, 1.3559])
    >>> cw.JobClass("query", speedup=cw.Amdahl(0.5), sizes=cw.sizes.Lognormal(4.0), max_cores=8).sizes
    Lognormal(cv2=4.0)
    """

    _repr_fields = ("name", "arrival_rate", "size_rate", "speedup", "weight")

    name: str
    arrival_rate: float | None = None
    size_rate: float | None = None
    speedup: SpeedUp = None  # type: ignore[assignment]  # comes after what may be missing, and may not be
    weight: float = 1.0
    sizes: SizeLaw = EXPONENTIAL
    arrivals: SizeLaw = EXPONENTIAL
    min_cores: int = _ONE_CORE
    max_cores: int | None = None
    resize_pause: float = _NO_PAUSE

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise InvalidSystem(f"a class needs a name that is not empty, got {self.name!r}")
        if any(mark in self.name for mark in ",:\n\r\t") or self.name != self.name.strip():
            raise InvalidSystem(
                f"class name {self.name!r} may not hold a comma, a colon or a line break, "
                f"nor start or end blank"
            )
        for field in ("arrival_rate", "size_rate", "weight"):
            given = getattr(self, field)
            if given is None and field != "weight":
                continue
            value = checks.positive(given, f"class {self.name!r}: {field}", InvalidSystem)
            object.__setattr__(self, field, value)
        if not isinstance(self.speedup, SpeedUp):
            raise InvalidSystem(f"class {self.name!r}: speedup must be a SpeedUp curve, got {self.speedup!r}")
        for field in ("sizes", "arrivals"):
            law = getattr(self, field)
            if law is not EXPONENTIAL and not isinstance(law, SizeLaw):
                raise InvalidSystem(
                    f"class {self.name!r}: {field} must be a distribution such as sizes.Lognormal(cv2=4), "
                    f"got {law!r}"
                )
        moves = self.max_cores is not None or self.resize_pause is not _NO_PAUSE
        if moves or self.min_cores is not _ONE_CORE:  # a learner makes four classes at every step
            self._check_moves()

    def _check_moves(self) -> None:
        what = f"class {self.name!r}"
        least = checks.whole(self.min_cores, f"{what}: min_cores", InvalidSystem)
        object.__setattr__(self, "min_cores", least)
        if self.max_cores is not None:
            most = checks.whole(self.max_cores, f"{what}: max_cores", InvalidSystem)
            object.__setattr__(self, "max_cores", most)
            if least > most:
                raise InvalidSystem(f"{what}: min_cores {least} is above max_cores {most}")
        pause = checks.within(self.resize_pause, 0.0, math.inf, f"{what}: resize_pause", InvalidSystem)
        object.__setattr__(self, "resize_pause", pause)

    @cached_property
    def curve(self) -> SpeedUp:
        """How fast a job runs on the cores it holds: its speed-up, on no more cores than it can use."""
        return self.speedup if self.max_cores is None else Capped(self.speedup, float(self.max_cores))

    @property
    def known_size_rate(self) -> float:
        """μ, where it must be known: `InvalidSystem` if it is not."""
        if self.size_rate is None:
            raise InvalidSystem(f"class {self.name!r}: its size_rate is not known, but needed here{FOUND_BY}")
        return self.size_rate

    @property
    def work_rate(self) -> float:
        """λ/μ, the work that arrives per unit of time, in cores; NaN if one of them is not known."""
        if self.arrival_rate is None or self.size_rate is None:
            return math.nan
        return self.arrival_rate / self.size_rate

    def moves_in_words(self, unit: str | None) -> list[str]:
        """Return what there is to say of how its jobs move; times are in `unit`."""
        words = []
        if self.min_cores > 1 or self.max_cores is not None:
            most = "" if self.max_cores is None else f" to {self.max_cores}"
            words.append(f"{self.min_cores}{most or ' or more'} cores a job")
        if self.resize_pause:
            words.append(f"pause {self.resize_pause:g}{time_suffix(unit)} a resize")
        return words

    @cached_property
    def curves(self) -> tuple[SpeedUp, ...]:
        """The curves of the parts of a job's work in order; one, unless it changes with progress."""
        return tuple(curve for _, curve in self.curve.phases)

    @cached_property
    def starts(self) -> Floats:
        """The fraction of a job's work at which each of these curves begins."""
        return np.array([start for start, _ in self.speedup.phases])

    @property
    def changes_with_progress(self) -> bool:
        """Whether the curve of a job depends on how much of its work is done."""
        return isinstance(self.speedup, ByProgress)

    @property
    def memoryless(self) -> bool:
        """Whether sizes and the times between arrivals are exponential, and curves stay as they are."""
        exponential = type(self.sizes) is Exponential and type(self.arrivals) is Exponential
        return exponential and not self.changes_with_progress


@dataclass(frozen=True, repr=False)
class Change(Summarised):
    """From `time` on, the class of that name has another curve.

    Examples
    --------
    >>> import corewise as cw
    >>> job_class = cw.JobClass("etl", arrival_rate=1.0, size_rate=1.0, speedup=cw.Amdahl(0.3))
    >>> system = cw.System(4, [job_class], changes=[cw.Change(100.0, "etl", cw.Amdahl(0.6))])
    >>> system.regime(99.0)["etl"].speedup, system.regime(100.0)["etl"].speedup
    (Amdahl(p=0.3), Amdahl(p=0.6))
    """

    _repr_fields = ("time", "name", "speedup")

    time: float
    name: str
    speedup: SpeedUp

    def __post_init__(self) -> None:
        what = f"change of class {self.name!r}"
        object.__setattr__(self, "time", checks.positive(self.time, f"{what}: time", InvalidSystem))
        if not isinstance(self.speedup, SpeedUp):
            raise InvalidSystem(f"{what}: speedup must be a SpeedUp curve, got {self.speedup!r}")
