"""Job classes and the pool of cores that serves them.

Paper: section 2.1. The paper's λ and α are the classes' own arrival rates, λ_1 = αλ and λ_2 = (1 − α)λ.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from corewise.errors import InvalidCurve, InvalidSystem, UnstableSystem, nearest
from corewise.kit import checks
from corewise.kit.arrays import Floats
from corewise.kit.display import Shown, Table
from corewise.kit.spoken import of_time, per_time
from corewise.model.capped import Capped
from corewise.model.sizes import Exponential, SizeLaw
from corewise.model.speedup import Amdahl, SpeedUp, check_curve
from corewise.model.units import require_unit

__all__ = ["Change", "JobClass", "System", "require_system"]

_EXPONENTIAL = Exponential()
_ONE_CORE, _NO_PAUSE = 1, 0.0  # how jobs move if nothing is said
_FOUND_BY = "; estimate finds it from an event log"


@dataclass(frozen=True, repr=False)
class JobClass(Shown):
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
        The law of job sizes, scaled to mean 1/μ; exponential if not given, as everything exact assumes.
    arrivals : SizeLaw, optional
        The law of the times between arrivals, scaled to mean 1/λ; exponential if not given: Poisson arrivals.
    least_cores : int, optional
        The fewest cores that a job runs on; with fewer it waits. Exact numbers are for jobs that run on any
        share of a core, and take no notice: it matters where jobs hold whole cores, in simulations with
        moving costs and in live pools.
    most_cores : int, optional
        The most cores that a job can use: on more it is no faster.
    resize_pause : float, optional
        δ, how long a job that runs stands still when its cores change. Exact numbers are for free moves, and
        take no notice of it either.
    """

    _shown = ("name", "arrival_rate", "size_rate", "speedup", "weight")

    name: str
    arrival_rate: float | None = None
    size_rate: float | None = None
    speedup: SpeedUp = None  # type: ignore[assignment]  # comes after what may be missing, and may not be
    weight: float = 1.0
    sizes: SizeLaw = _EXPONENTIAL
    arrivals: SizeLaw = _EXPONENTIAL
    least_cores: int = _ONE_CORE
    most_cores: int | None = None
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
            if law is not _EXPONENTIAL and not isinstance(law, SizeLaw):
                raise InvalidSystem(
                    f"class {self.name!r}: {field} must be a law such as sizes.Lognormal(cv2=4), got {law!r}"
                )
        moves = self.most_cores is not None or self.resize_pause is not _NO_PAUSE
        if moves or self.least_cores is not _ONE_CORE:  # a learner makes four classes at every step
            self._check_moves()

    def _check_moves(self) -> None:
        what = f"class {self.name!r}"
        least = checks.count(self.least_cores, f"{what}: least_cores", InvalidSystem)
        object.__setattr__(self, "least_cores", least)
        if self.most_cores is not None:
            most = checks.count(self.most_cores, f"{what}: most_cores", InvalidSystem)
            object.__setattr__(self, "most_cores", most)
            if least > most:
                raise InvalidSystem(f"{what}: least_cores {least} is above most_cores {most}")
        pause = checks.within(self.resize_pause, 0.0, math.inf, f"{what}: resize_pause", InvalidSystem)
        object.__setattr__(self, "resize_pause", pause)

    @cached_property
    def curve(self) -> SpeedUp:
        """How fast a job runs on the cores it holds: its speed-up, on no more cores than it can use."""
        return self.speedup if self.most_cores is None else Capped(self.speedup, float(self.most_cores))

    @property
    def known_size_rate(self) -> float:
        """μ, where it must be known: `InvalidSystem` if it is not."""
        if self.size_rate is None:
            raise InvalidSystem(
                f"class {self.name!r}: its size_rate is not known, but needed here{_FOUND_BY}"
            )
        return self.size_rate

    @property
    def work_rate(self) -> float:
        """λ/μ, the work that arrives per unit of time, in cores; NaN if one of them is not known."""
        if self.arrival_rate is None or self.size_rate is None:
            return math.nan
        return self.arrival_rate / self.size_rate

    @property
    def memoryless(self) -> bool:
        """Whether sizes and the times between arrivals are exponential."""
        return type(self.sizes) is Exponential and type(self.arrivals) is Exponential


@dataclass(frozen=True, repr=False)
class Change(Shown):
    """From `time` on, the class of that name has another curve."""

    _shown = ("time", "name", "speedup")

    time: float
    name: str
    speedup: SpeedUp

    def __post_init__(self) -> None:
        what = f"change of class {self.name!r}"
        object.__setattr__(self, "time", checks.positive(self.time, f"{what}: time", InvalidSystem))
        if not isinstance(self.speedup, SpeedUp):
            raise InvalidSystem(f"{what}: speedup must be a SpeedUp curve, got {self.speedup!r}")


@dataclass(frozen=True, repr=False)
class System(Shown):
    """A pool of identical cores and the classes of jobs it serves.

    Parameters
    ----------
    cores : float
        c, a positive real; an integer where whole cores are asked for.
    classes : sequence of JobClass
        At least one, with different names.
    changes : sequence of Change, optional
        Curves that change at known times; everything exact uses the first regime.
    unit : str, optional
        The unit of time that rates are in, one of `corewise.model.units.UNITS` such as ``"hours"``: said
        beside every time and rate.
    """

    cores: float
    classes: tuple[JobClass, ...]
    changes: tuple[Change, ...] = ()
    unit: str | None = None

    def __init__(
        self,
        cores: float,
        classes: Iterable[JobClass],
        changes: Iterable[Change] = (),
        unit: str | None = None,
    ) -> None:
        object.__setattr__(self, "cores", checks.positive(cores, "cores", InvalidSystem))
        if isinstance(classes, JobClass | str) or not isinstance(classes, Iterable):
            raise InvalidSystem(f"classes must be a list of JobClass, got {classes!r}")
        if isinstance(changes, Change | str) or not isinstance(changes, Iterable):
            raise InvalidSystem(f"changes must be a list of Change, got {changes!r}")
        object.__setattr__(self, "classes", tuple(classes))
        object.__setattr__(self, "changes", tuple(changes))
        object.__setattr__(self, "unit", None if unit is None else require_unit(unit))
        self._check_classes()
        self._check_changes()

    def _check_classes(self) -> None:
        if not self.classes:
            raise InvalidSystem("a system needs at least one class, got none")
        seen: set[str] = set()
        for job_class in self.classes:
            if not isinstance(job_class, JobClass):
                raise InvalidSystem(f"classes must be JobClass objects, got {job_class!r}")
            if job_class.name in seen:
                raise InvalidSystem(f"class name {job_class.name!r} is used twice")
            seen.add(job_class.name)
            self._check_speedup(job_class.name, job_class.speedup)
            for field in ("least_cores", "most_cores"):
                if (getattr(job_class, field) or 0) > max(self.cores, 1.0):
                    raise InvalidSystem(
                        f"class {job_class.name!r}: {field} {getattr(job_class, field)} is above the "
                        f"{self.cores:g} cores there are"
                    )

    def _check_changes(self) -> None:
        latest = 0.0
        for change in self.changes:
            if not isinstance(change, Change):
                raise InvalidSystem(f"changes must be Change objects, got {change!r}")
            self.index(change.name)
            if change.time < latest:
                raise InvalidSystem(f"changes must be in order of time, got {change.time:g} after {latest:g}")
            latest = change.time
            self._check_speedup(change.name, change.speedup)

    def _check_speedup(self, name: str, curve: SpeedUp) -> None:
        try:
            check_curve(curve, self.cores)
        except InvalidCurve as error:
            raise InvalidCurve(f"class {name!r}: {error}") from None

    def __getitem__(self, name: str) -> JobClass:
        """Return the class of that name."""
        return self.classes[self.index(name)]

    def __str__(self) -> str:
        """Return the system in one paragraph."""
        per = f", rates{per_time(self.unit)}" if self.unit else ""
        lines = [f"{self.cores:g} cores, {len(self.classes)} classes, load {self.load:.4g}{per}"]
        for job_class in self.classes:
            parameters = ", ".join(
                f"{name}={value:g}" for name, value in job_class.speedup.parameters.items()
            )
            rates = (job_class.arrival_rate, job_class.size_rate)
            arrival_rate, size_rate = ("not known" if rate is None else f"{rate:g}" for rate in rates)
            laws = (("sizes", job_class.sizes), ("arrivals", job_class.arrivals))
            other = "".join(f", {law} {what}" for what, law in laws if type(law) is not Exponential)
            other += "".join(f", {words}" for words in _moves_in_words(job_class, self.unit))
            lines.append(
                f"  {job_class.name}: λ = {arrival_rate}, μ = {size_rate}, "
                f"{job_class.speedup.family}({parameters}), weight {job_class.weight:g}{other}"
            )
        return "\n".join(lines)

    def index(self, name: str) -> int:
        """Return the position of the class of that name."""
        if name not in self.names:
            raise InvalidSystem(f"unknown class {name!r}{nearest(str(name), self.names)}")
        return self.names.index(name)

    @property
    def names(self) -> list[str]:
        """The names of the classes, in order."""
        return [job_class.name for job_class in self.classes]

    @cached_property
    def arrival_rates(self) -> Floats:
        """λ of each class, NaN where it is not known."""
        rates = [job_class.arrival_rate for job_class in self.classes]
        return np.array([math.nan if rate is None else rate for rate in rates])

    @cached_property
    def size_rates(self) -> Floats:
        """μ of each class, NaN where it is not known."""
        rates = [job_class.size_rate for job_class in self.classes]
        return np.array([math.nan if rate is None else rate for rate in rates])

    @cached_property
    def weights(self) -> Floats:
        """The cost h of one job of each class per unit of time."""
        return np.array([job_class.weight for job_class in self.classes])

    @cached_property
    def amdahl_fractions(self) -> Floats | None:
        """P of each class, if all of them follow Amdahl's law."""
        fractions = [job_class.curve.p for job_class in self.classes if type(job_class.curve) is Amdahl]
        return np.array(fractions) if len(fractions) == len(self.classes) else None

    @cached_property
    def load(self) -> float:
        """Σ λ_i / (c μ_i): the least share of the cores that is busy."""
        try:
            return math.fsum(job_class.work_rate for job_class in self.classes) / self.cores
        except OverflowError:
            return math.inf

    @cached_property
    def likely_states(self) -> float:
        """About how many states a long path sees, going by the jobs there are if each holds one core."""
        self.require_rates()
        jobs = self.arrival_rates / self.size_rates
        return float(np.prod(1.3 * jobs + 6.0 * np.sqrt(jobs) + 10.0))

    def require_arrival_rates(self) -> None:
        """Raise `InvalidSystem` if the arrival rate of some class is not known."""
        for job_class in self.classes:
            if job_class.arrival_rate is None:
                raise InvalidSystem(
                    f"class {job_class.name!r}: its arrival_rate is not known, but needed here{_FOUND_BY}"
                )

    def require_size_rates(self) -> None:
        """Raise `InvalidSystem` if the size rate of some class is not known."""
        for job_class in self.classes:
            job_class.known_size_rate  # noqa: B018  # raises

    def require_rates(self) -> None:
        """Raise `InvalidSystem` if some rate is not known."""
        if math.isnan(self.load):  # which is known already, and NaN if any of them is not
            self.require_arrival_rates()
            self.require_size_rates()

    @cached_property
    def memoryless(self) -> bool:
        """Whether all sizes and all times between arrivals are exponential: then the counts say it all."""
        return all(job_class.memoryless for job_class in self.classes)

    def require_memoryless(self, what: str) -> None:
        """Raise `InvalidSystem` unless all sizes and times between arrivals are exponential.

        `what` is the name of what is exact for these only, such as "solve".
        """
        if self.memoryless:
            return
        for job_class in self.classes:
            if not job_class.memoryless:
                which = "sizes" if type(job_class.sizes) is not Exponential else "arrivals"
                raise InvalidSystem(
                    f"class {job_class.name!r}: {what} is exact for exponential sizes and Poisson arrivals "
                    f"only, and its {which} are {getattr(job_class, which)}; simulate and compare take any "
                    f"law"
                )

    def as_memoryless(self) -> System:
        """Return the system with exponential sizes and Poisson arrivals of the same rates."""
        if self.memoryless:
            return self
        classes = (replace(known, sizes=_EXPONENTIAL, arrivals=_EXPONENTIAL) for known in self.classes)
        return self._checked(tuple(classes), self.changes)

    def without_rates(self) -> System:
        """Return the system without its arrival and size rates: what a learner has that is to find them."""
        classes = (replace(known, arrival_rate=None, size_rate=None) for known in self.classes)
        return self._checked(tuple(classes), self.changes)

    def require_stable(self) -> None:
        """Raise `UnstableSystem` if the load is one or more: then no policy keeps up."""
        self.require_rates()
        if self.load >= 1.0:
            work = self.load * self.cores
            raise UnstableSystem(
                f"the load is {self.load:.6g}, and it must be below 1: work for {work:.6g} cores arrives, "
                f"and there are {self.cores:g}"
            )

    def require_scale(self) -> None:
        """Raise `InvalidSystem` if some rate is so large or small that arithmetic would break down."""
        self.require_rates()
        rows = zip(self.classes, self.arrival_rates.tolist(), self.size_rates.tolist(), strict=True)
        for job_class, arrival_rate, size_rate in rows:
            if not 1e-100 <= job_class.weight <= 1e100:
                raise InvalidSystem(
                    f"class {job_class.name!r}: weight {job_class.weight:g} is out of scale; choose a unit "
                    f"of cost nearer to it"
                )
            rates = (self.cores * size_rate, arrival_rate, size_rate)
            if max(rates) > 1e100 or min(rates) < 1e-100:
                raise InvalidSystem(
                    f"class {job_class.name!r}: arrival_rate {arrival_rate:g} and size_rate "
                    f"{size_rate:g} are out of scale; choose a unit of time nearer to theirs"
                )

    def at(self, time: float) -> System:
        """Return the system from a time on: the curves then in force, and the changes still to come."""
        over = bisect_right(self._change_times, time)
        return self if over == 0 else self._checked(self._classes_after(over), self.changes[over:])

    def regime(self, time: float) -> System:
        """Return the system as it is at a time, as if it stayed so."""
        if not self.changes:
            return self
        return self._checked(self._classes_after(bisect_right(self._change_times, time)), ())

    @cached_property
    def _change_times(self) -> list[float]:
        return [change.time for change in self.changes]

    def _classes_after(self, over: int) -> tuple[JobClass, ...]:
        """Return the classes with the curves that are in force after so many changes."""
        curves: dict[str, SpeedUp] = {}
        for change in reversed(self.changes[:over]):
            curves.setdefault(change.name, change.speedup)
            if len(curves) == len(self.classes):
                break
        return tuple(replace(known, speedup=curves.get(known.name, known.speedup)) for known in self.classes)

    def _checked(self, classes: tuple[JobClass, ...], changes: tuple[Change, ...]) -> System:
        """Return a system of parts of this one, which were checked when it was made."""
        made = object.__new__(System)
        own = (("cores", self.cores), ("classes", classes), ("changes", changes), ("unit", self.unit))
        for name, value in own:
            object.__setattr__(made, name, value)
        return made

    def at_load(self, load: float) -> System:
        """Return the same system with every arrival rate scaled so that the load is `load`."""
        self.require_rates()
        factor = checks.positive(load, "load", InvalidSystem) / self.load
        rates = (factor * self.arrival_rates).tolist()
        classes = [
            replace(job_class, arrival_rate=rate) for job_class, rate in zip(self.classes, rates, strict=True)
        ]
        return self.with_classes(classes, self.changes)

    def with_classes(self, classes: Iterable[JobClass], changes: Iterable[Change] = ()) -> System:
        """Return the system with other classes, and changes if they are given."""
        return System(self.cores, classes, changes, self.unit)

    def with_curves(self, curves: Mapping[str, SpeedUp]) -> System:
        """Return the system with other curves for the classes named."""
        if not isinstance(curves, Mapping):
            raise InvalidSystem(f"curves must be a mapping from class names to curves, got {curves!r}")
        for name in curves:
            self.index(name)
        if all(curves.get(known.name, known.speedup) is known.speedup for known in self.classes):
            return self
        classes = [
            replace(job_class, speedup=curves.get(job_class.name, job_class.speedup))
            for job_class in self.classes
        ]
        return self.with_classes(classes, self.changes)

    def _facts(self) -> Mapping[str, object]:
        return {"cores": self.cores, "classes": tuple(self.names), "load": self.load}

    def _table(self) -> Table:
        return Table.of(self.classes, "name", "arrival_rate", "size_rate", "speedup", "weight")


def _moves_in_words(job_class: JobClass, unit: str | None) -> list[str]:
    words = []
    if job_class.least_cores > 1 or job_class.most_cores is not None:
        most = "" if job_class.most_cores is None else f" to {job_class.most_cores}"
        words.append(f"{job_class.least_cores}{most or ' or more'} cores a job")
    if job_class.resize_pause:
        words.append(f"pause {job_class.resize_pause:g}{of_time(unit)} a resize")
    return words


def require_system(value: object) -> None:
    """Raise `InvalidSystem` unless `value` is a System."""
    if not isinstance(value, System):
        raise InvalidSystem(f"expected a System, got {value!r}")
