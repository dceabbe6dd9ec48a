"""How soon the detector finds a change of a curve, and how often one that never was.

Everything is counted in departures of all classes, under a policy that stays as it is. The yardstick is
CUSUM that knows the change beforehand: see `benchmarks.instruments.cusum`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.instruments.cusum import Jump, cusum_delays, cusum_height
from corewise.errors import InvalidInput, NotConverged
from corewise.estimation.changes.detector import Alarm, ChangeDetector
from corewise.kit import checks
from corewise.kit.arrays import Floats
from corewise.kit.frozen import FrozenMapping
from corewise.model.system import System
from corewise.observation.statistics import Statistics
from corewise.policies.base import Policy, bind
from corewise.simulation.decisions.table import TableChain, TransitionTables
from corewise.simulation.randomness import random_generator, random_streams
from corewise.simulation.state import State

__all__ = ["DelayCurve", "FalseAlarms", "delay_curve", "detection_delays", "false_alarms"]

Rng = np.random.Generator | int | None


class _Windows:
    """A simulated system under a policy that stays, seen window by window."""

    def __init__(self, tables: TransitionTables, state: State, rng: np.random.Generator) -> None:
        self.tables, self.state, self.rng = tables, state, rng

    @classmethod
    def of(cls, system: System, policy: Policy, rng: np.random.Generator) -> _Windows:
        counts = (0,) * len(system.classes)
        return cls(TransitionTables.of(system, bind(policy, system), counts), State(counts), rng)

    def next(self, departures: int) -> Statistics:
        """Return what is seen until so many more jobs have left."""
        walk = TableChain(self.tables, self.state, self.rng)
        walk.run_departures([departures], None)
        self.tables, (self.state, _) = walk.tables, walk.finish()
        return walk.statistics()

    def changed(self, system: System, rng: np.random.Generator) -> _Windows:
        """Return a copy that goes on from here with the rates and curves of another system."""
        return _Windows(self.tables.under(system), self.state, rng)


@dataclass(frozen=True)
class FalseAlarms:
    """What the detector found where nothing changed.

    Attributes
    ----------
    between_alarms : float
        How many departures between false alarms it was set to, in the mean.
    departures : int
        Departures simulated, of all classes.
    alarms : tuple of Alarm
        What it found, each change once, as it was named last.
    """

    between_alarms: float
    departures: int
    alarms: tuple[Alarm, ...]

    @property
    def promised(self) -> float:
        """How many alarms there should have been, in the mean."""
        return self.departures / self.between_alarms

    @property
    def kinds(self) -> Mapping[str, int]:
        """How many alarms there were of each kind."""
        return FrozenMapping(Counter(alarm.kind for alarm in self.alarms))

    def __add__(self, other: FalseAlarms) -> FalseAlarms:
        """Return both together, if the detector was set in the same way."""
        if other.between_alarms != self.between_alarms:
            raise InvalidInput(
                f"alarms of detectors set to {self.between_alarms:g} and {other.between_alarms:g} do not add"
            )
        return FalseAlarms(
            self.between_alarms, self.departures + other.departures, (*self.alarms, *other.alarms)
        )


def false_alarms(
    system: System,
    policy: Policy,
    *,
    between_alarms: float,
    departures: int,
    every: int = 200,
    rng: Rng = None,
) -> FalseAlarms:
    """Return the alarms of a `ChangeDetector` on a stationary simulated system.

    Parameters
    ----------
    system : System
        The system, which does not change.
    policy : Policy
        Who holds how many cores.
    between_alarms : float
        What the detector is set to.
    departures : int
        How many to simulate, of all classes.
    every : int, optional
        Departures of a window, at the end of which the detector looks.
    rng : Generator or int, optional
        The source of randomness, or a seed for one.
    """
    windows = _Windows.of(system, policy, random_generator(rng))
    detector = ChangeDetector(system, between_alarms)
    every, total = checks.count(every, "every"), checks.count(departures, "departures")
    found: dict[tuple[str, float, float], Alarm] = {}
    for _ in range(total // every):
        detector, alarms = detector.observe(windows.next(every))
        # An alarm that only names a change found earlier has its place and statistic.
        found |= {(alarm.name, alarm.departures, alarm.statistic): alarm for alarm in alarms}
    return FalseAlarms(between_alarms, total // every * every, tuple(found.values()))


def detection_delays(
    jump: Jump,
    *,
    between_alarms: float,
    repetitions: int,
    every: int = 200,
    before: int = 1000,
    apart: int = 50,
    most: int = 100_000,
    rng: Rng = None,
) -> Floats:
    """Return the delay of a `ChangeDetector` at each of some repetitions of a change, in departures.

    The changes branch off one stationary run, `apart` windows from each other, the first after `before`
    windows; each at a random departure within a window, and with a random stream of its own. The policy stays
    as it is, and the delay is until the class is first named in an alarm, if only of its speed.

    Parameters
    ----------
    jump : Jump
        The change.
    between_alarms : float
        What the detector is set to.
    repetitions : int
        How many changes to make.
    every : int, optional
        Departures of a window, at the end of which the detector looks.
    before, apart : int, optional
        Windows before the first change, and between one and the next.
    most : int, optional
        Windows after which to give up with `NotConverged`.
    rng : Generator or int, optional
        The source of randomness, or a seed for one.
    """
    every, repetitions = checks.count(every, "every"), checks.count(repetitions, "repetitions")
    stationary, *streams = random_streams(rng, repetitions + 1)
    windows = _Windows.of(jump.system, jump.policy, stationary)
    detector, delays = ChangeDetector(jump.system, between_alarms), np.empty(repetitions)
    for k, stream in enumerate(streams):
        for _ in range(apart if k else before):
            detector, _alarms = detector.observe(windows.next(every))
        delays[k] = _delay(jump, windows, detector, every, most, stream)
    return delays


def _delay(
    jump: Jump,
    windows: _Windows,
    detector: ChangeDetector,
    every: int,
    most: int,
    rng: np.random.Generator,
) -> int:
    """Return how many departures it takes to find a change at a random departure of the next window."""
    old = int(rng.integers(every))
    branch = windows.changed(jump.system, rng)
    first = [branch.next(old)] if old else []
    branch = branch.changed(jump.changed, rng)
    watching, alarms = detector.observe(Statistics.total([*first, branch.next(every - old)]))
    for _ in range(most):
        if any(alarm.name == jump.name and alarm.kind != "arrival rate" for alarm in alarms):
            return watching.departures - detector.departures - old
        watching, alarms = watching.observe(branch.next(every))
    raise NotConverged(f"the change of class {jump.name!r} was not found in {most} windows of {every}")


# --- how the delay grows --------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class DelayCurve:
    """Delays of the detector and of CUSUM at several rates of false alarms.

    Attributes
    ----------
    name : str
        The class that changes.
    information : float
        I: to first order a delay grows by 1/I with the logarithm of `between`.
    between : ndarray
        How many departures there are between false alarms, in the mean.
    repetitions : int
        How often the change was made for each.
    detector, cusum : ndarray
        The mean delays, in departures of all classes.
    detector_stderr, cusum_stderr : ndarray
        Their standard errors.
    """

    name: str
    information: float
    between: Floats
    repetitions: int
    detector: Floats
    cusum: Floats
    detector_stderr: Floats
    cusum_stderr: Floats

    @property
    def slopes(self) -> tuple[float, float]:
        """The slopes of the delays of detector and CUSUM in log `between`, by least squares."""
        across = np.log(self.between) - np.log(self.between).mean()
        detector, cusum = (float(across @ mean / (across @ across)) for mean in (self.detector, self.cusum))
        return detector, cusum


def delay_curve(
    jump: Jump,
    *,
    between: Sequence[float],
    repetitions: int,
    every: int = 200,
    before: int = 1000,
    rng: Rng = None,
) -> DelayCurve:
    """Return how the delays of the detector and of CUSUM grow with the departures between false alarms."""
    if len(between) < 2:
        raise InvalidInput(f"a slope needs at least two rates of false alarms, got {list(between)!r}")
    means, errors = np.empty((2, 2, len(between)))
    for k, (wanted, stream) in enumerate(zip(between, random_streams(rng, len(between)), strict=True)):
        ours = detection_delays(
            jump, between_alarms=wanted, repetitions=repetitions, every=every, before=before, rng=stream
        )
        height = cusum_height(jump, between=wanted, rng=stream)
        theirs = cusum_delays(jump, height=height, repetitions=repetitions, rng=stream)
        for i, delays in enumerate((ours, theirs)):
            means[i, k], errors[i, k] = delays.mean(), delays.std(ddof=1) / np.sqrt(delays.size)
    return DelayCurve(
        jump.name, jump.information, np.array(between, dtype=np.float64), repetitions, *means, *errors
    )
