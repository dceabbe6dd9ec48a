"""Systems: a pool of cores and the job classes that it serves.

Paper: section 2.1.
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
from corewise.kit.report import Summarised, Table
from corewise.kit.unit_labels import rate_suffix, time_suffix
from corewise.model.job_class import EXPONENTIAL, FOUND_BY, Change, JobClass
from corewise.model.sizes import Exponential
from corewise.model.speedup import Amdahl, ByProgress, SpeedUp, check_curve
from corewise.model.units import require_unit

__all__ = ["System", "require_system"]


@dataclass(frozen=True, repr=False)
class System(Summarised):
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

    Examples
    --------
    >>> import corewise as cw
    >>> system = cw.System(
    ...     cores=16,
    ...     classes=[
    ...         cw.JobClass("etl", arrival_rate=4.0, size_rate=1.0, speedup=cw.Amdahl(0.35)),
    ...         cw.JobClass("training", arrival_rate=1.5, size_rate=0.25, speedup=cw.Amdahl(0.95)),
    ...     ],
    ... )
    >>> system.names, system.load
    (['etl', 'training'], 0.625)
    >>> system["training"].speedup.p
    0.95
    >>> system.at_load(0.9).arrival_rates
    array([5.76, 2.16])
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
            for field in ("min_cores", "max_cores"):
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
            if isinstance(change.speedup, ByProgress):
                raise InvalidSystem(
                    f"change of class {change.name!r} at {change.time:g}: a curve by progress cannot begin "
                    f"at a time"
                )
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

    @property
    def summary(self) -> str:
        """Cores, number of classes and load in a line, and when curves change."""
        classes = "1 class" if len(self.classes) == 1 else f"{len(self.classes)} classes"
        load = "rates not known" if math.isnan(self.load) else f"load {self.load:.4g}"
        regime = ""
        if self.changes:
            first = f"{self.changes[0].time:g}{time_suffix(self.unit)}"
            regime = f"; curves as they are before they change at time {first}"
        return f"{self.cores:g} cores, {classes}, {load}{regime}"

    @property
    def weighted(self) -> bool:
        """Whether cost differs from the number of jobs: some class has a weight other than one."""
        return any(job_class.weight != 1.0 for job_class in self.classes)

    def __str__(self) -> str:
        """Return the system in one paragraph."""
        per = f", rates{rate_suffix(self.unit)}" if self.unit else ""
        lines = [f"{self.cores:g} cores, {len(self.classes)} classes, load {self.load:.4g}{per}"]
        for job_class in self.classes:
            parameters = ", ".join(
                f"{name}={value:g}" for name, value in job_class.speedup.parameters.items()
            )
            rates = (job_class.arrival_rate, job_class.size_rate)
            arrival_rate, size_rate = ("not known" if rate is None else f"{rate:g}" for rate in rates)
            laws = (("sizes", job_class.sizes), ("arrivals", job_class.arrivals))
            other = "".join(f", {law} {what}" for what, law in laws if type(law) is not Exponential)
            other += "".join(f", {words}" for words in job_class.moves_in_words(self.unit))
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
    def max_cores(self) -> Floats:
        """The most cores that a job of each class can use, infinite where nothing is said."""
        return np.array([job_class.max_cores or math.inf for job_class in self.classes])

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
                    f"class {job_class.name!r}: its arrival_rate is not known, but needed here{FOUND_BY}"
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
        """Whether counts say it all: sizes and times between arrivals are exponential, and curves stay."""
        return all(job_class.memoryless for job_class in self.classes)

    def require_memoryless(self, what: str) -> None:
        """Raise `InvalidSystem` unless sizes and times between arrivals are exponential and curves stay.

        `what` is the name of what is exact for these only, such as "solve".
        """
        if self.memoryless:
            return
        for job_class in self.classes:
            if job_class.changes_with_progress:
                raise InvalidSystem(
                    f"class {job_class.name!r}: {what} is exact for curves that stay as they are only, and "
                    f"its curve changes with progress; simulate follows it"
                )
            if not job_class.memoryless:
                which = "sizes" if type(job_class.sizes) is not Exponential else "arrivals"
                raise InvalidSystem(
                    f"class {job_class.name!r}: {what} is exact for exponential sizes and Poisson arrivals "
                    f"only, and its {which} are {getattr(job_class, which)}; simulate and compare take any "
                    f"distribution"
                )

    def as_memoryless(self) -> System:
        """Return the system with exponential sizes, Poisson arrivals, and curves averaged over a job's life.

        Rates are the same.
        """
        if self.memoryless:
            return self
        classes = (
            replace(
                known,
                sizes=EXPONENTIAL,
                arrivals=EXPONENTIAL,
                speedup=curve.average(self.cores)
                if isinstance(curve := known.speedup, ByProgress)
                else curve,
            )
            for known in self.classes
        )
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

    def with_cores(self, cores: float) -> System:
        """Return the system on another number of cores; a job can use no more than there are."""
        most = max(int(checks.positive(cores, "cores", InvalidSystem)), 1)
        classes = [
            replace(known, max_cores=most) if (known.max_cores or 0) > most else known
            for known in self.classes
        ]
        return System(cores, classes, self.changes, self.unit)

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

    def _summary(self) -> Mapping[str, object]:
        return {"cores": self.cores, "classes": tuple(self.names), "load": self.load}

    def _table(self) -> Table:
        return Table.of(self.classes, "name", "arrival_rate", "size_rate", "speedup", "weight")


def require_system(value: object) -> None:
    """Raise `InvalidSystem` unless `value` is a System."""
    if not isinstance(value, System):
        raise InvalidSystem(f"expected a System, got {value!r}")
