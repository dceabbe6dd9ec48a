r"""The learner: the closed loop of observation, inference and installation, in one place.

    request   = learner.observe(window)      once a window of N_k departures is full, else None
    inference = infer(request)               estimates and the plug-in system: a pure function, in any process
    learner.install(inference, policy)       the state and the policy of the next window

The `Learner` has neither clock nor randomness nor plant. The simulated loop (`corewise.learning.loop`) calls
`infer` in line. A live pool calls it in another process, as it takes milliseconds and at times a tenth of a
second, too long for the thread that handles events; there an inference comes back as plain values in an
event, so that a replay infers nothing, and windows that close in the meantime are kept for the next request.
Policy π_{k+1} uses the data that the memory holds after window k.

Rates that are not known are estimated with the curves: arrivals over time, and the size rate that is most
likely at the posterior mean of the curve (`corewise.estimation.posterior`). Nothing is spent on exploration:
under every policy that idles no core a class is alone with one job, with two, with three, and so seen at
several widths, which tells its curve from its size rate in time.

Two rules keep the loop from freezing. An estimate at the end of its range is reported as it is, but the
policy is made for the middle of its interval: with p̂ = 0 and cores that could be withheld, a class might
never again hold more than one core per job, and the likelihood would stay flat for ever. And where the data
say nothing about a class, its last estimate is carried over.

Paper: Algorithms 1, 1a and 1b.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self, cast

import numpy as np

from corewise.control.residual import Residual
from corewise.control.solution import Solution
from corewise.errors import InvalidInput
from corewise.estimation.changes.alarms import RETRACTED, Alarm
from corewise.estimation.class_estimate import ClassEstimate
from corewise.estimation.estimates import Estimate, Estimates
from corewise.estimation.mle import estimate
from corewise.estimation.progress.family import with_progress, without_curve
from corewise.estimation.unknown_rates import estimate_unknown, with_rates
from corewise.kit.arrays import Floats
from corewise.kit.frozen import FrozenMapping
from corewise.kit.jsonable import plain
from corewise.learning.algorithms import Algorithm
from corewise.learning.memories import Memory, Watchful
from corewise.model.files import RATES, system_from_mapping, system_to_mapping
from corewise.model.speedup import SpeedUp
from corewise.model.system import System
from corewise.observation.progress import ClassProgress
from corewise.observation.statistics import Statistics
from corewise.policies.base import Policy, checked_policy
from corewise.policies.equi import Equi
from corewise.policies.jobs.index import JobIndex

__all__ = ["MAX_LOAD", "Inference", "InferenceRequest", "Learner", "LearnerState", "infer", "with_load_below"]

MAX_LOAD = 0.95
"""The load of a plug-in system at most: arrivals beyond it are left out, as the time of a solve grows with
the states that a box must hold, by 1/(1 − load) per class, and above a load of one no policy is stable."""

_SAME_RATE = 0.01
"""Rates that differ by less ask for no new policy."""

_ENOUGH_FOR_SIZES = 300
"""Departures of a class from which on its estimated size distribution is used, if none was given."""

_MAX_KEPT = 32  # windows that are kept one by one, before they are folded into the memory here

_NONE = np.empty(0)
_NO_PROGRESS = ClassProgress(_NONE, _NONE, _NONE, _NONE, _NONE, (0.0, 0.0, 0.0))


def with_load_below(system: System, load: float) -> System:
    """Return a system with fewer arrivals, in proportion, if its load is above a limit."""
    return system if system.load <= load else system.at_load(load)


@dataclass(frozen=True, eq=False)
class LearnerState:
    """State of a learner between two windows: estimates, memory and warm start.

    Attributes
    ----------
    k, departures, time
        How many windows are closed, and the departures and the time in them.
    estimated : System
        The system with the latest estimate of every curve.
    plug_in : System
        The system for which the policy is made: the same, but away from the ends of the ranges.
    warm_start : ndarray or None
        The warm start from which the policy was sought.
    memory : Memory
        The memory of the windows.
    """

    k: int
    departures: int
    time: float
    estimated: System
    plug_in: System
    warm_start: Floats | None
    memory: Memory


@dataclass(frozen=True, eq=False)
class InferenceRequest:
    """Request to infer: all that an inference is made from, as values that another process can be sent.

    Attributes
    ----------
    algorithm : Algorithm
        What is known, and how to learn the rest.
    state : LearnerState
        The state before the inference; its memory is that of the windows before `windows`.
    windows : tuple of Statistics
        The windows since, which are to be remembered as well.
    new : int
        How many of these, the last ones, no inference has covered yet.
    last : Solution, Policy or None
        The policy adopted last, if it may be used again.
    warm_start : ndarray or None
        The warm start that it gives.
    progress : tuple of ClassProgress
        The progress that jobs of each class have reported; empty where there are no such reports.
    too_short : tuple of str
        Why nothing can be learned from the rounds of each class, empty where something can.
    pauses : tuple of float
        How long a job of each class pauses when it is resized, as far as is known.
    cores : int or None
        The cores of the pool now; None for those of the system.
    min_departures : int
        Departures of a class from which on a policy is made for it.
    """

    algorithm: Algorithm
    state: LearnerState
    windows: tuple[Statistics, ...] = ()
    new: int = 0
    last: Solution | Policy | None = None
    warm_start: Floats | None = None
    progress: tuple[ClassProgress, ...] = ()
    too_short: tuple[str, ...] = ()
    pauses: tuple[float, ...] = ()
    cores: int | None = None
    min_departures: int = 0

    @property
    def k(self) -> int:
        """The last window that is closed."""
        return self.state.k

    @cached_property
    def remembered(self) -> tuple[Memory, tuple[Alarm, ...]]:
        """The memory of all windows, and the changes that were found in new ones."""
        memory, watches = self.state.memory, self.algorithm.watches
        alarms: list[Alarm] = []
        for left, window in zip(range(len(self.windows), 0, -1), self.windows, strict=True):
            memory = memory.remember(window)
            if watches and left <= self.new:
                alarms += cast(Watchful, memory).alarms
        return memory, tuple(alarms)

    @property
    def seen(self) -> Statistics:
        """The statistics that the memory of all windows holds."""
        return self.remembered[0].recall()

    def solve(self, inference: Inference) -> Solution | Policy:
        """Return the policy for an inference: the last one where that will do, else the algorithm's."""
        if inference.reuse and self.last is not None:
            return self.last
        return self.algorithm.solve(inference.plug_in, inference.warm_start)


@dataclass(frozen=True, eq=False)
class Inference:
    """Inference: the estimates from all windows so far, and the systems that they make.

    Attributes
    ----------
    classes : tuple of ClassEstimate
        The estimates, as a journal holds them.
    estimated : System
        The system with them.
    plug_in : System
        The system for which to make a policy.
    windows : int
        How many windows they are from.
    alarms : tuple of Alarm
        The changes that were found since the last inference.
    estimates : Estimates or None
        The estimates with all that is known of them; None where the inference was read from plain values, as
        are those below.
    memory : Memory or None
        The memory of all windows.
    reuse : bool
        Whether the last policy will do: no estimate is far from what it was made for.
    warm_start : ndarray or None
        The warm start from which to seek the policy.
    """

    classes: tuple[ClassEstimate, ...]
    estimated: System
    plug_in: System
    windows: int = 0
    alarms: tuple[Alarm, ...] = ()
    estimates: Estimates | None = None
    memory: Memory | None = None
    reuse: bool = False
    warm_start: Floats | None = None

    @property
    def changed(self) -> set[str]:
        """The classes whose jobs have changed; a change of the arrival rate is none of the jobs."""
        return _changed(self.alarms)

    def as_mapping(self) -> dict[str, Any]:
        """Return the inference as plain values, which JSON can hold."""
        made = plain(
            {
                "classes": [row.as_mapping() for row in self.classes],
                "estimated": system_to_mapping(self.estimated),
                "believed": system_to_mapping(self.plug_in),
                "windows": self.windows,
                "alarms": [alarm.as_mapping() for alarm in self.alarms],
            }
        )
        assert isinstance(made, dict)
        return made

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any]) -> Self:
        """Return the inference that `as_mapping` has written."""
        try:
            return cls(
                tuple(ClassEstimate.from_mapping(row) for row in mapping["classes"]),
                system_from_mapping(mapping["estimated"], optional=RATES),
                system_from_mapping(mapping["believed"], optional=RATES),
                int(mapping["windows"]),
                tuple(map(Alarm.from_mapping, mapping["alarms"])),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InvalidInput(f"what was learned cannot be read: {type(error).__name__}: {error}") from None

    def require(self, system: System) -> None:
        """Raise `InvalidInput` unless the inference is about the classes of a system."""
        for names in ([row.name for row in self.classes], self.estimated.names, self.plug_in.names):
            if names != system.names:
                raise InvalidInput(
                    f"what was learned is of classes {', '.join(names)}; the system has "
                    f"{', '.join(system.names)}"
                )


class Learner:
    """Learner: a state machine without clock or randomness, from windows of statistics to the next policy.

    Parameters
    ----------
    algorithm : Algorithm
        How to learn.
    state : LearnerState, optional
        The state to go on from; by default nothing was observed yet.
    covered, pending : tuple of Statistics, optional
        Windows behind the memory of that state.

    Attributes
    ----------
    algorithm : Algorithm
        How to learn.
    policy : Policy
        The policy that was adopted last; at first that with which the algorithm begins.
    state : LearnerState
        What has been learned from the windows closed so far.
    covered, pending : tuple of Statistics
        Windows that are not in the memory of the state yet: those that an inference has covered, and those
        since. Both are empty where an inference comes with its memory, as in the simulated loop.
    """

    def __init__(
        self,
        algorithm: Algorithm,
        state: LearnerState | None = None,
        covered: tuple[Statistics, ...] = (),
        pending: tuple[Statistics, ...] = (),
    ) -> None:
        if not isinstance(algorithm, Algorithm):
            raise InvalidInput(f"expected an algorithm such as algorithm_1a(…), got {algorithm!r}")
        self.algorithm = algorithm
        self.covered, self.pending = covered, pending
        self._window: Statistics | None = None
        self._warm_start: Floats | None = None
        self._solved: Solution | Policy | None = None
        self.policy: Policy = Equi()
        if state is None:
            guess, self.policy = algorithm.beginning()
            state = LearnerState(0, 0, 0.0, guess, guess, None, algorithm.memory)
        self.state = state

    @classmethod
    def resumed(cls, algorithm: Algorithm, state: LearnerState) -> Learner:
        """Return the learner that goes on from a state, with the policy that had been adopted in it."""
        learner = cls(algorithm, state)
        learner.adopt(algorithm.solve(state.plug_in, state.warm_start))
        return learner

    def with_algorithm(self, algorithm: Algorithm) -> Learner:
        """Return a learner with another algorithm, or of other classes, that has seen what this one has.

        What was seen of classes that stay, by name, is remembered as one window: estimates are as they were,
        and changes are looked for from now on.
        """
        before, made = self.state, Learner(algorithm)
        if not before.k:
            return made
        seen = self.memory.recall().with_classes(algorithm.system.names)
        memory = algorithm.memory.remember(seen) if seen.departures else algorithm.memory
        made.state = replace(
            made.state,
            k=before.k,
            departures=before.departures,
            time=before.time,
            estimated=_carried_over(made.state.estimated, before.estimated),
            plug_in=_carried_over(made.state.plug_in, before.plug_in),
            memory=memory,
        )
        return made

    @property
    def done(self) -> bool:
        """Whether all windows are closed."""
        return self.algorithm.steps is not None and self.state.k >= self.algorithm.steps

    @property
    def wanted(self) -> int:
        """How many departures the current window still lacks."""
        seen = 0 if self._window is None else self._window.departures
        return self.algorithm.schedule.window(self.state.k + 1) - seen

    @property
    def memory(self) -> Memory:
        """The memory of all windows."""
        return self.request().remembered[0]

    def observe(self, seen: Statistics) -> InferenceRequest | None:
        """Take in the statistics of a stretch; return the request to infer once the window is full.

        Parts of a window may come one by one. What comes after a request belongs to the next window, whether
        or not an inference has been installed by then.
        """
        names = self.algorithm.system.names
        if not isinstance(seen, Statistics):
            raise InvalidInput(f"expected Statistics, such as those of a run, got {seen!r}")
        if list(seen.names) != names:
            raise InvalidInput(
                f"the plant has classes {', '.join(seen.names)}, the algorithm is for {', '.join(names)}"
            )
        self._window = seen if self._window is None else self._window + seen
        return self.close() if self.wanted <= 0 else None

    def close(self) -> InferenceRequest:
        """Close the window as it is, however many departures it has; return the request to infer."""
        window, before = self._window, self.state
        if window is None:
            raise InvalidInput("nothing was observed since the last window was closed")
        self._window = None
        self.state = replace(
            before,
            k=before.k + 1,
            departures=before.departures + window.departures,
            time=before.time + window.time,
        )
        self.pending = (*self.pending, window)
        if len(self.pending) > _MAX_KEPT:  # requests are not answered: changes in it are not reported
            self._cover(1)
            self.fold()
        return self.request()

    def request(
        self,
        progress: tuple[ClassProgress, ...] = (),
        *,
        too_short: tuple[str, ...] = (),
        pauses: tuple[float, ...] = (),
        cores: int | None = None,
        min_departures: int = 0,
    ) -> InferenceRequest:
        """Return the request to infer from all windows so far; what else was seen is as in the request."""
        return InferenceRequest(
            self.algorithm,
            self.state,
            (*self.covered, *self.pending),
            len(self.pending),
            self._solved,
            self._warm_start,
            progress,
            too_short,
            pauses,
            cores,
            min_departures,
        )

    def install(self, inference: Inference, solved: Solution | Policy | None = None) -> None:
        """Install an inference, and the policy that was solved for it unless the gate has refused it."""
        if solved is not None:
            self.adopt(solved)
        self.state = replace(
            self.state,
            estimated=inference.estimated,
            plug_in=inference.plug_in,
            warm_start=inference.warm_start,
        )
        self._cover(inference.windows - self._inferred)
        if inference.memory is not None:
            self.install_memory(inference.windows, inference.memory)
        elif len(self.covered) > _MAX_KEPT:
            self.fold()

    def install_memory(self, windows: int, memory: Memory) -> None:
        """Install the memory of so many windows from an inference, if it is what `fold` would make."""
        if windows == self._inferred:
            self.state, self.covered = replace(self.state, memory=memory), ()

    def fold(self) -> None:
        """Fold the windows that an inference has covered into the memory."""
        memory = self.state.memory
        for window in self.covered:
            memory = memory.remember(window)
        self.state, self.covered = replace(self.state, memory=memory), ()

    def adopt(self, solved: Solution | Policy) -> None:
        """Adopt a policy, from the next window on."""
        if solved is not None and solved is self._solved:
            return
        policy = solved.policy if isinstance(solved, Solution) else solved
        self.policy = checked_policy(policy, self.algorithm.system)
        self._solved = solved
        self._warm_start = solved.warm_start if isinstance(solved, Solution) else None

    @property
    def _inferred(self) -> int:
        """How many windows inferences have covered."""
        return self.state.k - len(self.pending)

    def _cover(self, count: int) -> None:
        """Move so many of the pending windows to those that are covered."""
        count = max(count, 0)
        self.covered, self.pending = (*self.covered, *self.pending[:count]), self.pending[count:]


def _carried_over(guess: System, last: System) -> System:
    """Return what is known of classes, with the last estimates of those that stay."""
    classes = []
    for one in guess.classes:
        known = one
        if known.name in last.names and type(last[known.name].speedup) is type(known.speedup):
            found = last[known.name]
            known = replace(
                known,
                speedup=found.speedup if known.speedup.bounds else known.speedup,
                arrival_rate=known.arrival_rate or found.arrival_rate,
                size_rate=known.size_rate or found.size_rate,
            )
        classes.append(known)
    return guess.with_classes(classes)


# --- inference: a pure function of the request --------------------------------------------------------


def infer(request: InferenceRequest) -> Inference:
    """Infer from all windows so far: the estimates, and the plug-in system for which to make a policy."""
    algorithm, before = request.algorithm, request.state
    memory, alarms = request.remembered
    refine = _by_progress(request, _changed(alarms)) if request.progress else None
    watchful = cast(Watchful, memory) if algorithm.watches else None
    found, estimated, known = _estimated(algorithm, before, memory.recall(), watchful, refine)
    reuse = not alarms and request.last is not None and _will_do(algorithm, found, known, before.plug_in)
    shown = _with_last(found, estimated)
    return Inference(
        tuple(ClassEstimate.of(row) for row in shown.values()),
        estimated,
        before.plug_in if reuse else _plug_in(algorithm, found, known),
        before.k,
        alarms,
        shown,
        memory,
        reuse,
        before.warm_start if reuse else request.warm_start,
    )


def _changed(alarms: Iterable[Alarm]) -> set[str]:
    return {alarm.name for alarm in alarms if alarm.kind not in ("arrival rate", RETRACTED)}


_Refine = Callable[[Estimates, Statistics], Estimates]
"""From estimates, and the statistics that they are from, to better ones."""


def _by_progress(request: InferenceRequest, changed: set[str]) -> _Refine:
    """Return how to refine estimates by the progress of jobs; progress before a change is left out."""
    last = request.state.estimated.classes
    names = zip(request.algorithm.system.names, request.progress, strict=True)
    reported = [_NO_PROGRESS if name in changed else progress for name, progress in names]

    def refined(found: Estimates, seen: Statistics) -> Estimates:
        rows = zip(found.items(), seen.classes, reported, last, strict=True)
        better = {
            name: with_progress(row, table, progress, known.speedup)
            for (name, row), table, progress, known in rows
        }
        for why, table, known in zip(request.too_short, seen.classes, last, strict=False):
            if why:
                better[known.name] = without_curve(better[known.name], table, known.speedup, why)
        return Estimates(FrozenMapping(better))

    return refined


def _estimated(
    algorithm: Algorithm,
    before: LearnerState,
    seen: Statistics,
    watchful: Watchful | None,
    refine: _Refine | None,
) -> tuple[Estimates, System, System]:
    """Return the estimates, the system with them, and the system whose rates to make a policy for."""
    given = algorithm.system
    if algorithm.knows_rates:
        found = estimate(seen, given, sizes=algorithm.sizes)
        found = found if refine is None else refine(found, seen)
        curves, known = found.curves, before.plug_in
        estimated = before.estimated.with_curves(curves)
        if watchful is not None:
            return found, watchful.known(estimated), _solvable(watchful.known(known), known)
        anew = len(curves) == len(given.classes) and not isinstance(algorithm.policy, Residual | JobIndex)
        return found, estimated, estimated if anew else known  # one system for both, if they are the same
    found = estimate_unknown(seen, given, before.estimated)
    found = found if refine is None else refine(found, seen)
    estimated = with_rates(before.estimated, found, given, seen)
    if watchful is not None:
        estimated = watchful.known(estimated)
    return found, estimated, _solvable(estimated, before.plug_in)


def _solvable(system: System, last: System) -> System:
    """Return a system with the arrivals that a solve can take; one that was not changed is as it was."""
    return system if system is last else with_load_below(system, MAX_LOAD)


def _plug_in(algorithm: Algorithm, found: Estimates, known: System) -> System:
    """Return the system for which to make a policy, of estimates and rates."""
    at_end = any(row.at_boundary for row in found.values())
    system = known.with_curves(_away_from_ends(found) if at_end else found.curves)
    if isinstance(algorithm.policy, JobIndex):
        system = system.with_curves(_cautious(found, system))
    if isinstance(algorithm.policy, Residual | JobIndex):
        return _with_sizes(system, found, algorithm.system)
    return system


def _with_sizes(system: System, found: Estimates, given: System) -> System:
    """Return a system with the size distributions that were estimated from enough departures."""
    sizes = {
        name: row.size_law
        for name, row in found.items()
        if given[name].memoryless and row.departures >= _ENOUGH_FOR_SIZES
    }
    classes = [replace(known, sizes=sizes.get(known.name) or known.sizes) for known in system.classes]
    return system.with_classes(classes, system.changes)


def _away_from_ends(found: Estimates) -> dict[str, SpeedUp]:
    """Return the curves to make a policy for: parameters at an end of their range are moved inside.

    Not so where the interval has no middle, as that of κ in the Universal Scalability Law after a few
    departures: it is [0, ∞), and κ = 0 withholds no cores.
    """
    curves = {}
    for name, curve in found.curves.items():
        row = found[name]
        if row.size_rate is not None:  # its size rate is the best one for this very curve
            curves[name] = curve
            continue
        middles = {parameter: 0.5 * sum(interval) for parameter, interval in row.intervals.items()}
        inside = {
            parameter: middles[parameter]
            for parameter, ends in curve.bounds.items()
            if row.parameters[parameter] in ends and math.isfinite(middles[parameter])
        }
        curves[name] = curve.with_parameters(**inside)
    return curves


def _cautious(found: Estimates, plug_in: System) -> dict[str, SpeedUp]:
    """Return the curves of a plug-in system with p at the lower end of its interval.

    A policy that gives most cores to few jobs pays dearly where p is believed too high, and little where it
    is believed too low. Where the interval reaches to an end of the range it is half the value: with p at
    zero cores would be left idle.
    """
    curves = {}
    for name, row in found.items():
        curve = plug_in[name].speedup
        curves[name] = curve
        if list(curve.bounds) == ["p"] and row.size_rate is None and row.informative:
            value, low = curve.parameters["p"], row.intervals["p"][0]
            curves[name] = curve.with_parameters(
                p=low if curve.bounds["p"][0] < low <= value else 0.5 * value
            )
    return curves


def _with_last(found: Estimates, estimated: System) -> Estimates:
    """Return estimates, with the last one of a class where the data say nothing."""
    rows = {name: _or_last(row, estimated[name].speedup) for name, row in found.items()}
    return Estimates(FrozenMapping(rows))


def _or_last(row: Estimate, last: SpeedUp) -> Estimate:
    """Return an estimate, or the last one where the data say nothing."""
    if row.informative or not last.bounds:
        return row
    note = f"{row.note}; the last estimate stays"
    return replace(row, curve=last, parameters=FrozenMapping(last.parameters), note=note)


def _will_do(algorithm: Algorithm, found: Estimates, known: System, made_for: System) -> bool:
    """Return whether a policy that was made for a system will do: no estimate or rate is far from it."""
    if algorithm.inertia == 0.0 or not _same_rates(known, made_for):
        return False
    for name, row in found.items():
        last = made_for[name].speedup.parameters
        for parameter, value in row.parameters.items():
            near = abs(value - last[parameter]) <= algorithm.inertia * row.stderrs[parameter]
            if row.informative and not near:
                return False
    return True


def _same_rates(one: System, other: System) -> bool:
    """Return whether all rates differ too little to ask for a new policy."""
    if one is other:
        return True
    pairs = ((one.arrival_rates, other.arrival_rates), (one.size_rates, other.size_rates))
    return all(bool(np.all(np.abs(a - b) <= _SAME_RATE * b)) for a, b in pairs)
