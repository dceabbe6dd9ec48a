"""Conformance checks for a curve, a policy, a plant or an engine of your own.

The documentation of each protocol (`SpeedUp`, `Policy`, `Plant`, `Engine`) says what a plug-in has to
satisfy. Here each of these properties is a check. A check that fails raises an `AssertionError` that names
the plug-in, the property and the values at which it does not hold.

With pytest, one test for each property::

    @pytest.mark.parametrize("check", checks_for(MyCurve(0.5)), ids=str)
    def test_my_curve(check):
        check()
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from corewise.errors import CorewiseError, InvalidPolicy
from corewise.kit.arrays import Floats
from corewise.learning.plant import Plant, Resumable
from corewise.live.engines.base import Engine, Gang, Holding, Rounds
from corewise.model.files import load_system
from corewise.model.job_class import JobClass
from corewise.model.speedup import Amdahl, PowerLaw, SpeedUp
from corewise.model.system import System
from corewise.observation.events import CoresHeld, Event, JobEnded, JobFinished, MoveRefused
from corewise.observation.statistics import Statistics
from corewise.policies.base import BoundPolicy, Policy
from corewise.policies.equi import Equi
from corewise.policies.whittle import Whittle

__all__ = ["Check", "check_engine", "check_plant", "check_policy", "check_speedup", "checks_for"]

_TIMEOUT = 30.0
"""Seconds until an engine that has not reported an event is taken never to report it."""

_UNCHANGED = 0.05
"""Seconds in which an engine has to report nothing."""


@dataclass(frozen=True)
class Check:
    """Check of one property of a plug-in: call it without arguments.

    Attributes
    ----------
    subject : str
        The plug-in that is checked.
    name : str
        The property.

    Examples
    --------
    >>> import corewise as cw
    >>> from corewise.testing import checks_for
    >>> check = next(checks_for(cw.Amdahl(0.5)))
    >>> check.subject, check.name
    ('Amdahl(p=0.5)', 'rates are finite and of the shape of the widths')
    >>> check()
    """

    subject: str
    name: str
    _run: Callable[[], None]

    def __call__(self) -> None:
        """Raise `AssertionError` if the property does not hold."""
        try:
            self._run()
        except AssertionError as error:
            raise AssertionError(f"{self.subject}: {self.name}: {error}") from error
        except Exception as error:
            raised = f"{type(error).__name__}: {error}"
            raise AssertionError(f"{self.subject}: {self.name}: raised {raised}") from error

    def __str__(self) -> str:
        """Return the name of the property, as an id for pytest."""
        return self.name


def checks_for(plugin: object, *, systems: Iterable[System] | None = None) -> Iterator[Check]:
    """Yield the checks of a plug-in, of whichever of the four kinds it is.

    Parameters
    ----------
    plugin : SpeedUp, Policy, Plant or callable
        A curve, a policy, a plant; or what makes an engine, called without arguments: each check starts and
        closes an engine of its own.
    systems : iterable of System, optional
        The systems to bind a policy to.

    Raises
    ------
    TypeError
        If it is none of these.

    Examples
    --------
    >>> import corewise as cw
    >>> from corewise.testing import checks_for
    >>> for check in checks_for(cw.Equi()):
    ...     check()
    ...     print(check)
    the name is text
    binding gives a bound policy
    cores are a split of the pool
    a state has the same cores among others as alone
    binding twice gives the same cores
    """
    if isinstance(plugin, SpeedUp):
        return _checks(plugin, _SPEEDUP, partial(_Curve, plugin))
    if isinstance(plugin, Engine) and not isinstance(plugin, type):
        raise TypeError(
            f"expected what makes an engine, got the engine {plugin!r}: each check needs a new one"
        )
    if isinstance(plugin, Plant) and not isinstance(plugin, type):
        return _checks(plugin, _PLANT, lambda: plugin)
    if isinstance(plugin, Policy) and not isinstance(plugin, type):
        found = None if systems is None else tuple(systems)
        return _checks(plugin, _POLICY, partial(_BoundTo, plugin, found))
    if callable(plugin):
        return _checks(plugin, _ENGINE, lambda: plugin)
    raise TypeError(f"expected a curve, a policy, a plant, or what makes an engine, got {plugin!r}")


def check_speedup(curve: SpeedUp, *, cores: float = 64.0) -> None:
    """Check that a curve is a speed-up curve on the widths up to `cores`.

    It has to be finite for an array of widths, s(z) = z up to one core, nondecreasing and concave; its slope
    and its gradient have to be the derivatives of its rate, and different parameters give different curves.

    Parameters
    ----------
    curve : SpeedUp
        The curve.
    cores : float, optional
        The greatest width to look at.

    Raises
    ------
    AssertionError
        If a property does not hold.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> import corewise as cw
    >>> from corewise.testing import check_speedup
    >>> check_speedup(cw.Amdahl(0.5))
    >>> @dataclass(frozen=True)
    ... class Convex(cw.SpeedUp):
    ...     def rate_above(self, z):
    ...         return 1.0 + 0.1 * (z - 1.0) ** 1.3
    >>> check_speedup(Convex())
    Traceback (most recent call last):
        ...
    AssertionError: Convex(): the curve is concave: ...
    """
    _run_all(_checks(curve, _SPEEDUP, partial(_Curve, curve, cores)))


def check_policy(policy: Policy, systems: Iterable[System] | None = None) -> None:
    """Check that a policy can be bound to systems, and that what it gives is a split of their cores.

    Parameters
    ----------
    policy : Policy
        The policy.
    systems : iterable of System, optional
        What to bind it to; by default systems of one, two and three classes, those of them that it fits.

    Raises
    ------
    AssertionError
        If a property does not hold.

    Examples
    --------
    >>> import corewise as cw
    >>> from corewise.testing import check_policy
    >>> check_policy(cw.Whittle())
    >>> check_policy(cw.OwnPolicy("twice", lambda jobs, system: 2.0 * system.cores * jobs / jobs.sum()))
    Traceback (most recent call last):
        ...
    AssertionError: ...: cores are a split of the pool: ...
    """
    found = None if systems is None else tuple(systems)
    _run_all(_checks(policy, _POLICY, partial(_BoundTo, policy, found)))


def check_plant(plant: Plant) -> None:
    """Check that a plant runs policies window by window and returns sufficient statistics of each.

    The plant is run, for some hundred departures; one with snapshots is also restored to them.

    Parameters
    ----------
    plant : Plant
        The plant.

    Raises
    ------
    AssertionError
        If a property does not hold.

    Examples
    --------
    >>> import corewise as cw
    >>> from corewise.testing import check_plant
    >>> check_plant(cw.SimulatedPlant(cw.load_system("paper:1"), rng=7))
    >>> class Generous(cw.SimulatedPlant):
    ...     def run(self, policy, departures):
    ...         return super().run(policy, departures + 1)
    >>> check_plant(Generous(cw.load_system("paper:1"), rng=7))
    Traceback (most recent call last):
        ...
    AssertionError: ...: a window has the departures asked for until the plant ends: asked for 1, got 2
    """
    _run_all(_checks(plant, _PLANT, lambda: plant))


def check_engine(make: Callable[[], Engine]) -> None:
    """Check that an engine runs jobs of Python calls, moves their cores and reports what happened.

    Engines of commands and of pods are not checked: what they run is not on this machine.

    Parameters
    ----------
    make : callable
        Makes an engine of at least two cores; each check starts and closes one of its own.

    Raises
    ------
    AssertionError
        If a property does not hold.

    Examples
    --------
    >>> from concurrent.futures import ThreadPoolExecutor
    >>> import corewise as cw
    >>> from corewise.testing import check_engine, checks_for
    >>> def make():
    ...     return cw.live.engines.ExecutorEngine(ThreadPoolExecutor(2))
    >>> check_engine(make)
    >>> [str(check) for check in checks_for(make)][2:4]
    ['a job runs to its result', 'cores move while a job runs']
    """
    _run_all(_checks(make, _ENGINE, lambda: make))


_Properties = dict[str, Callable[[Any], None]]


def _checks(plugin: object, properties: _Properties, subject: Callable[[], Any]) -> Iterator[Check]:
    shown = getattr(plugin, "__qualname__", None) or repr(plugin)
    for name, holds in properties.items():
        yield Check(shown, name, partial(_check, holds, subject))


def _check(holds: Callable[[Any], None], subject: Callable[[], Any]) -> None:
    holds(subject())


def _run_all(checks: Iterator[Check]) -> None:
    for check in checks:
        check()


def _require(holds: object, otherwise: str) -> None:
    """Raise `AssertionError` unless a condition holds, also under ``python -O``."""
    if not holds:
        raise AssertionError(otherwise)


# --- curves -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Curve:
    """Curve under check, and the widths at which it is looked at."""

    curve: SpeedUp
    cores: float = 64.0

    @property
    def widths(self) -> Floats:
        return np.unique(np.concatenate([np.linspace(0.0, 1.0, 9), np.geomspace(1.0, self.cores, 257)]))

    @property
    def inner(self) -> Floats:
        """Widths above one core at which curves seldom have a kink."""
        return np.geomspace(1.037, 0.973 * max(self.cores, 1.1), 101)


def _rates_are_finite(at: _Curve) -> None:
    for z in (at.widths, at.widths[:1], np.empty(0)):
        rates = np.asarray(at.curve.rate(z))
        _require(rates.shape == z.shape, f"rate of {z.size} widths has shape {rates.shape}")
        above = np.asarray(at.curve.rate_above(np.maximum(z, 1.0)))
        bad = z[~(np.isfinite(rates) & np.isfinite(above))]
        _require(bad.size == 0, f"s({bad[0] if bad.size else 0:g}) is not finite")


def _linear_up_to_one_core(at: _Curve) -> None:
    z = at.widths[at.widths <= 1.0]
    off = np.abs(at.curve.rate(z) - z)
    worst = int(off.argmax())
    _require(off[worst] <= 1e-9, f"s({z[worst]:g}) is {at.curve.rate(z)[worst]:.9g}, not {z[worst]:g}")


def _nondecreasing(at: _Curve) -> None:
    rise = np.diff(at.curve.rate(at.widths))
    worst = int(rise.argmin())
    _require(
        rise[worst] >= -1e-9, f"it falls between {at.widths[worst]:g} and {at.widths[worst + 1]:g} cores"
    )


def _concave(at: _Curve) -> None:
    z, s = at.widths, at.curve.rate(at.widths)
    slopes = np.diff(s) / np.diff(z)
    excess = np.diff(slopes)
    worst = int(excess.argmax())
    _require(
        excess[worst] <= 1e-7 * max(1.0, slopes[worst]),
        f"its slope rises from {slopes[worst]:.9g} to {slopes[worst + 1]:.9g} at {z[worst + 1]:g} cores",
    )


def _slope_is_the_derivative(at: _Curve) -> None:
    z = at.inner
    step = 1e-5 * z
    given = np.asarray(at.curve.slope(z))
    _require(given.shape == z.shape, f"slope of {z.size} widths has shape {given.shape}")
    # Of a concave curve the slope lies between the differences to the right and to the left.
    right = (at.curve.rate(z + step) - at.curve.rate(z)) / step
    left = (at.curve.rate(z) - at.curve.rate(z - step)) / step
    off = np.maximum(right - given, given - left)
    worst = int(off.argmax())
    _require(
        off[worst] <= 1e-6 * max(1.0, abs(left[worst])),
        f"at {z[worst]:g} cores it is {given[worst]:.9g}, by differences {right[worst]:.9g}",
    )


def _gradient_is_the_derivative(at: _Curve) -> None:
    z, curve = at.inner, at.curve
    given = np.asarray(curve.gradient(z))
    shape = (z.size, len(curve.bounds))
    _require(given.shape == shape, f"gradient of {z.size} widths has shape {given.shape}, not {shape}")
    for column, (name, (low, high)) in enumerate(curve.bounds.items()):
        value = curve.parameters[name]
        step = 1e-6 * max(1.0, abs(value))
        up, down = min(value + step, high), max(value - step, low)
        above, below = (curve.with_parameters(**{name: x}).rate(z) for x in (up, down))
        wanted = (above - below) / (up - down)
        off = np.abs(wanted - given[:, column])
        worst = int(off.argmax())
        _require(
            off[worst] <= 0.01 * max(1.0, float(np.abs(wanted).max())),  # one-sided at a bound: not accurate
            f"in {name} at {z[worst]:g} cores it is {given[worst, column]:.9g}, "
            f"by differences {wanted[worst]:.9g}",
        )


def _parameters_are_its_own(at: _Curve) -> None:
    curve = at.curve
    _require(
        set(curve.parameters) == set(curve.bounds), f"{set(curve.parameters)} are not {set(curve.bounds)}"
    )
    if not curve.bounds:
        return
    same = curve.with_parameters(**curve.parameters)
    _require(type(same) is type(curve), f"with_parameters returns a {type(same).__name__}")
    _require(np.array_equal(same.rate(at.widths), curve.rate(at.widths)), "with_parameters changes its rates")
    for name, (low, high) in curve.bounds.items():
        value = curve.parameters[name]
        _require(low <= value <= high, f"{name} = {value:g} lies outside its bounds {low:g} and {high:g}")


def _parameters_are_identifiable(at: _Curve) -> None:
    if not at.curve.bounds or at.cores <= 1.0:
        return
    rank = int(np.linalg.matrix_rank(np.asarray(at.curve.gradient(at.inner)), tol=1e-9))
    count = len(at.curve.bounds)
    _require(
        rank == count, f"the gradient has rank {rank} with {count} parameters: data cannot tell them apart"
    )


_SPEEDUP: _Properties = {
    "rates are finite and of the shape of the widths": _rates_are_finite,
    "up to one core the rate is the width": _linear_up_to_one_core,
    "the curve is nondecreasing": _nondecreasing,
    "the curve is concave": _concave,
    "the slope is the derivative in the width": _slope_is_the_derivative,
    "the gradient is the derivative in the parameters": _gradient_is_the_derivative,
    "parameters are those with bounds": _parameters_are_its_own,
    "different parameters give different curves": _parameters_are_identifiable,
}


# --- policies -----------------------------------------------------------------------------------------


def _default_systems() -> tuple[System, ...]:
    two = load_system("paper:1").at_load(0.7)
    alone = System(8, [JobClass("one", 2.0, 1.0, Amdahl(0.8))])
    three = [("one", Amdahl(0.3), 1.0), ("two", Amdahl(0.9), 2.0), ("three", PowerLaw(0.6), 0.5)]
    classes = [JobClass(name, 1.0, 0.5, curve, weight=weight) for name, curve, weight in three]
    return alone, two, System(16, classes)


def _states(classes: int) -> list[tuple[int, ...]]:
    """Return states with classes absent, with few jobs, and with more jobs than cores; none is empty."""
    each = (0, 1, 3, 40) if classes <= 2 else (0, 1, 7)
    grid = np.array(np.meshgrid(*[each] * classes, indexing="ij")).reshape(classes, -1).T
    return [tuple(int(n) for n in row) for row in grid if row.any()]


@dataclass(frozen=True)
class _BoundTo:
    """Policy under check, and the systems to bind it to."""

    policy: Policy
    systems: tuple[System, ...] | None

    @property
    def bound(self) -> Iterator[BoundPolicy]:
        """The policy on each of the systems that it fits."""
        count = 0
        for system in _default_systems() if self.systems is None else self.systems:
            if self.systems is None and not self._fits(system):
                continue
            count += 1
            bound = self.policy.on(system)
            _require(isinstance(bound, BoundPolicy), f"on(system) returns {bound!r}, not a BoundPolicy")
            yield bound
        _require(count, "it fits none of the default systems; give it some by systems=")

    def _fits(self, system: System) -> bool:
        require_fit = getattr(self.policy, "require_fit", None)
        try:
            if require_fit is not None:
                require_fit(system)
        except CorewiseError:
            return False
        return True


def _name_is_text(at: _BoundTo) -> None:
    _require(isinstance(at.policy.name, str) and at.policy.name, f"the name is {at.policy.name!r}")


def _binds(at: _BoundTo) -> None:
    for bound in at.bound:
        again = bound.on(bound.system)
        _require(again.system == bound.system, "bound again it has another system")
        _require(isinstance(bound.name, str), f"the bound policy's name is {bound.name!r}")


def _cores_are_a_split(at: _BoundTo) -> None:
    for bound in at.bound:
        pool = bound.system.cores
        for state in _states(len(bound.system.classes)):
            try:
                cores = np.asarray(bound.allocate(state))
            except InvalidPolicy as error:
                raise AssertionError(str(error)) from error
            shown = f"in state {list(state)} of {pool:g} cores it gives {cores.tolist()}"
            _require(cores.shape == (len(state),), f"{shown}: one number for each class is needed")
            _require(np.all(np.isfinite(cores)) and np.all(cores >= 0.0), f"{shown}: some are not positive")
            _require(cores.sum() <= pool * (1.0 + 1e-9), f"{shown}: more than there are")


def _many_states_as_one(at: _BoundTo) -> None:
    for bound in at.bound:
        states = _states(len(bound.system.classes))
        together = bound.allocate(states)
        for state, cores in zip(states, together, strict=True):
            alone = bound.allocate(state)
            _require(
                np.allclose(alone, cores, rtol=0.0, atol=1e-6 * bound.system.cores),
                f"in state {list(state)} it gives {np.asarray(cores).tolist()} among other states and "
                f"{np.asarray(alone).tolist()} alone",
            )


def _binds_alike(at: _BoundTo) -> None:
    for first, second in zip(at.bound, at.bound, strict=True):
        states = _states(len(first.system.classes))
        _require(
            np.array_equal(first.allocate(states), second.allocate(states)),
            f"on one system of {len(first.system.classes)} classes two bindings give different cores",
        )


_POLICY: _Properties = {
    "the name is text": _name_is_text,
    "binding gives a bound policy": _binds,
    "cores are a split of the pool": _cores_are_a_split,
    "a state has the same cores among others as alone": _many_states_as_one,
    "binding twice gives the same cores": _binds_alike,
}


# --- plants -------------------------------------------------------------------------------------------


def _truth_is_a_system(plant: Plant) -> None:
    truth = plant.truth
    _require(truth is None or isinstance(truth, System), f"truth is {truth!r}, neither a System nor None")


def _windows_are_statistics(plant: Plant) -> None:
    window = plant.run(Equi(), 20)
    _require(isinstance(window, Statistics), f"run returns {window!r}, not Statistics")
    _require(math.isfinite(window.time) and window.time >= 0.0, f"the window lasts {window.time}")
    for name, seen in zip(window.names, window.classes, strict=True):
        _require(seen.arrivals >= 0, f"class {name!r} has {seen.arrivals} arrivals")
        _require(np.all(seen.departures >= 0.0), f"class {name!r} has {seen.departures.min()} departures")
        _require(np.all(seen.job_time >= 0.0), f"class {name!r} has a job-time of {seen.job_time.min()}")


def _windows_have_the_departures_asked_for(plant: Plant) -> None:
    ended = False
    for wanted in (1, 20, 20):
        found = plant.run(Equi(), wanted).departures
        most = 0 if ended else wanted
        _require(found <= most, f"asked for {wanted}, got {found}" + (" after its end" if ended else ""))
        ended = ended or found < wanted


def _classes_stay(plant: Plant) -> None:
    first, second = plant.run(Equi(), 10), plant.run(Whittle(), 10)
    _require(first.names == second.names, f"windows are of classes {first.names} and {second.names}")
    truth = plant.truth
    _require(
        truth is None or tuple(truth.names) == tuple(first.names),
        f"windows are of classes {first.names}, the truth has {None if truth is None else truth.names}",
    )


def _cores_are_within_the_pool(plant: Plant) -> None:
    if (truth := plant.truth) is None:
        return
    window = plant.run(Equi(), 50)
    for name, seen in zip(window.names, window.classes, strict=True):
        worst = float(seen.widths.max(initial=0.0))
        _require(
            worst <= truth.cores * (1.0 + 1e-6), f"a job of {name!r} held {worst:g} of {truth.cores:g} cores"
        )


def _snapshots_restore(plant: Plant) -> None:
    if not isinstance(plant, Resumable):
        return
    snapshot = plant.snapshot()
    first = plant.run(Equi(), 20)
    plant.restore(snapshot)
    second = plant.run(Equi(), 20)
    _require(
        (first.time, first.departures) == (second.time, second.departures),
        f"{first.departures} departures in {first.time:g}, "
        f"after restore {second.departures} in {second.time:g}",
    )


_PLANT: _Properties = {
    "the truth is a system or None": _truth_is_a_system,
    "a window is sufficient statistics": _windows_are_statistics,
    "a window has the departures asked for until the plant ends": _windows_have_the_departures_asked_for,
    "all windows are of the same classes": _classes_stay,
    "jobs hold no more cores than there are": _cores_are_within_the_pool,
    "a restored snapshot gives the same window": _snapshots_restore,
}


# --- engines ------------------------------------------------------------------------------------------


class _Reports:
    """Events that an engine has reported."""

    def __init__(self) -> None:
        self.events: list[tuple[type[Event], tuple[Any, ...]]] = []
        self._news = threading.Condition()

    def __call__(self, kind: type[Event], *values: Any, then: Callable[[], None] | None = None) -> None:
        with self._news:
            self.events.append((kind, values))
            self._news.notify_all()
        if then is not None:
            then()

    def of(self, job: str, *kinds: type[Event]) -> list[tuple[type[Event], tuple[Any, ...]]]:
        return [(kind, values) for kind, values in self.events if kind in kinds and values[0] == job]

    def wait_for(self, what: str, holds: Callable[[], object]) -> None:
        with self._news:
            arrived = self._news.wait_for(lambda: bool(holds()), _TIMEOUT)
        _require(arrived, f"{what} was not reported within {_TIMEOUT:g} s; reported: {self._in_words()}")

    def wait_until_held(self, job: str, cores: int) -> None:
        self.wait_for(f"CoresHeld({job!r}, {cores})", lambda: self.held(job)[-1:] == [cores])

    def held(self, job: str) -> list[int]:
        return [values[1] for _, values in self.of(job, CoresHeld)]

    def answers(self, job: str, cores: int) -> bool:
        """Return whether a job holds so many cores, or a move of it was refused."""
        return self.held(job)[-1:] == [cores] or bool(self.of(job, MoveRefused))

    def _in_words(self) -> str:
        return ", ".join(f"{kind.__name__}{values}" for kind, values in self.events) or "nothing"


class _Running:
    """Engine that was started; at the end it is closed."""

    def __init__(self, make: Callable[[], Engine]) -> None:
        self.engine = make()
        _require(isinstance(self.engine, Engine), f"{self.engine!r} lacks some of the members of Engine")
        self.reports, self.stop = _Reports(), threading.Event()

    def __enter__(self) -> _Running:
        self.prompt("start", self.reports)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self.prompt("close")

    def prompt(self, method: str, *arguments: object) -> None:
        """Call a method of the engine, which must not wait for a job."""
        outcome: list[BaseException] = []

        def call() -> None:
            try:
                getattr(self.engine, method)(*arguments)
            except BaseException as error:
                outcome.append(error)

        thread = threading.Thread(target=call, daemon=True)
        thread.start()
        thread.join(_TIMEOUT)
        if thread.is_alive():
            self.stop.set()
            raise AssertionError(f"{method} had not returned after {_TIMEOUT:g} s")
        if outcome:
            raise outcome[0]

    def submit(self, job: str, rounds: Callable[[Holding, threading.Event], Rounds]) -> Gang:
        holding = Holding(job)
        gang = Gang(holding, rounds(holding, self.stop))
        self.prompt("submit", gang)
        return gang


def _until_stopped(job: Holding, stop: threading.Event) -> Rounds:
    """Yield short rounds until the check is over."""
    while not stop.is_set():
        yield [partial(time.sleep, 0.002)] * max(job.cores, 1)
    return "stopped"


def _three_rounds(job: Holding, _: threading.Event) -> Rounds:
    total = 0
    for step in range(3):
        answers = yield [partial(pow, step, 2)] * max(job.cores, 1)
        total += answers[0]
    return total


def _failing(_: Holding, __: threading.Event) -> Rounds:
    yield [partial(int, "no number")]


def _has_cores(make: Callable[[], Engine]) -> None:
    with _Running(make) as running:
        pool, pause = running.engine.pool, running.engine.pause
        _require(isinstance(pool, int) and pool >= 1, f"pool is {pool!r}, not a positive whole number")
        _require(pause is None or pause >= 0.0, f"pause is {pause!r}, neither None nor a length of time")


def _waits_for_cores(make: Callable[[], Engine]) -> None:
    with _Running(make) as running:
        running.submit("a", _three_rounds)
        time.sleep(_UNCHANGED)
        begun = running.reports.of("a", CoresHeld, JobFinished)
        _require(not begun, f"without cores it reported {begun[0][0].__name__ if begun else None}")


def _runs_a_job(make: Callable[[], Engine]) -> None:
    with _Running(make) as running:
        job = running.submit("a", _three_rounds)
        running.prompt("set_cores", "a", 1)
        running.reports.wait_for("JobFinished('a')", lambda: running.reports.of("a", JobFinished))
        _require(
            running.reports.held("a")[:1] == [1], f"CoresHeld reported {running.reports.held('a')}, not [1]"
        )
        result = job.future.result(_TIMEOUT)
        _require(result == 5, f"the job's result is {result!r}, not 5")
        kinds = [kind.__name__ for kind, _ in running.reports.of("a", JobFinished, JobEnded)]
        _require(kinds == ["JobFinished"], f"its end was reported as {kinds}")


def _moves_cores(make: Callable[[], Engine]) -> None:
    with _Running(make) as running:
        running.submit("a", _until_stopped)
        for cores in (1, 2, 1):
            running.prompt("set_cores", "a", cores)
            answered = partial(running.reports.answers, "a", cores)
            running.reports.wait_for(f"CoresHeld('a', {cores}) or MoveRefused", answered)


def _set_cores_is_idempotent(make: Callable[[], Engine]) -> None:
    with _Running(make) as running:
        running.submit("a", _until_stopped)
        running.prompt("set_cores", "a", 1)
        running.reports.wait_until_held("a", 1)
        for _ in range(3):
            running.prompt("set_cores", "a", 1)
        time.sleep(_UNCHANGED)
        held = running.reports.held("a")
        _require(set(held) == {1}, f"CoresHeld reported {held}")
        _require(not running.reports.of("a", JobFinished, JobEnded), "the job ended")


def _ends_a_job(make: Callable[[], Engine]) -> None:
    with _Running(make) as running:
        running.submit("a", _until_stopped)
        running.prompt("set_cores", "a", 1)
        running.reports.wait_until_held("a", 1)
        running.prompt("end", "a")
        running.reports.wait_for("JobEnded('a')", lambda: running.reports.of("a", JobEnded))
        _require(not running.reports.of("a", JobFinished), "JobFinished was reported too")


def _reports_a_failure(make: Callable[[], Engine]) -> None:
    with _Running(make) as running:
        running.submit("a", _failing)
        running.prompt("set_cores", "a", 1)
        running.reports.wait_for("JobEnded('a')", lambda: running.reports.of("a", JobEnded, JobFinished))
        (kind, values), *_ = running.reports.of("a", JobEnded, JobFinished)
        _require(
            kind is JobEnded and values[1] == "failed",
            f"{kind.__name__}{values} was reported, not JobEnded('a', 'failed')",
        )


def _is_silent_when_closed(make: Callable[[], Engine]) -> None:
    with _Running(make) as running:
        running.submit("a", _until_stopped)
        running.prompt("set_cores", "a", 1)
        running.reports.wait_until_held("a", 1)
    count = len(running.reports.events)
    time.sleep(_UNCHANGED)
    later: Sequence[tuple[type[Event], tuple[Any, ...]]] = running.reports.events[count:]
    _require(not later, f"{later[0][0].__name__ if later else None} was reported after close")


_ENGINE: _Properties = {
    "it has cores and a pause": _has_cores,
    "a job begins when it is given cores": _waits_for_cores,
    "a job runs to its result": _runs_a_job,
    "cores move while a job runs": _moves_cores,
    "setting the same cores again changes nothing": _set_cores_is_idempotent,
    "a job that is ended ends": _ends_a_job,
    "a job that fails is reported as failed": _reports_a_failure,
    "a closed engine reports nothing": _is_silent_when_closed,
}
