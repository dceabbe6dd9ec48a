"""Lessons: what is concluded from all that a live pool has seen, somewhere else, as values for a journal.

To estimate and to look for changes takes milliseconds, and at times a tenth of a second: too long for the
thread that answers every event. So a controller only keeps the windows it has seen, and asks a `Question`;
the `Lesson` comes back with a policy, in an event. A replay then estimates nothing, and no other machine or
version concludes anything else. The memory of the windows comes back beside the event, as it can be made of
them anywhere: after a replay it is made when somebody asks for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from corewise.errors import InvalidInput
from corewise.estimation.changes.alarms import RETRACTED, Alarm
from corewise.estimation.estimates import Estimates
from corewise.estimation.from_progress import with_progress, without_curve
from corewise.kit.frozen import FrozenMapping
from corewise.kit.jsonable import plain
from corewise.learning.algorithms import Algorithm, adaptive
from corewise.learning.checkpoint import LearnerState
from corewise.learning.conclusions import kept, learned, to_solve_for
from corewise.learning.memories import Memory, Watchful
from corewise.live.state.learned import Learned
from corewise.model.files import RATES, system_from_mapping, system_to_mapping
from corewise.model.system import System
from corewise.observation.progress import ClassProgress, ProgressTally
from corewise.observation.statistics import Statistics

__all__ = [
    "FIRST_WINDOW",
    "Lesson",
    "LiveLearner",
    "Question",
    "conclude",
    "how_to_learn",
]

FIRST_WINDOW = 50
"""Departures in the first window, if nothing else is said."""

_MOST_KEPT = 32  # windows, before they are remembered here
(_NOTHING,) = ProgressTally(1).seen()


def how_to_learn(system: System, departures: int = FIRST_WINDOW) -> Algorithm:
    """Return how a live pool learns: looking out for changes, often at first, when every window says much.

    Window k has ⌈departures · √k⌉ departures.
    """
    return adaptive(system, departures=departures, power=0.5)


@dataclass(frozen=True, eq=False)
class Question:
    """Question of a live controller: what follows from all that it has seen.

    Attributes
    ----------
    algorithm : Algorithm
        What is known, and how to learn the rest.
    standing : LearnerState
        What was believed, and what is remembered of earlier windows.
    progress : tuple of ClassProgress
        What jobs have told of their progress.
    pauses : tuple of float
        How long a job of each class stands still when it is resized, as far as is known.
    cores : int or None
        The cores that there are now; None for those of the system.
    windows : tuple of Statistics
        What was seen since, and is to be remembered as well.
    new : int
        How many of these, the last ones, nothing was concluded from yet.
    least_seen : int
        Departures of a class from which on a policy is made for it.
    too_short : tuple of str
        Why nothing can be learned from the rounds of each class, empty where something can; none if it is
        so of all.
    """

    algorithm: Algorithm
    standing: LearnerState
    progress: tuple[ClassProgress, ...]
    pauses: tuple[float, ...] = ()
    cores: int | None = None
    windows: tuple[Statistics, ...] = ()
    new: int = 0
    least_seen: int = 0
    too_short: tuple[str, ...] = ()

    @cached_property
    def remembered(self) -> tuple[Memory, tuple[Alarm, ...]]:
        """The memory of all windows, and the changes that were found in new ones."""
        memory = self.standing.memory
        alarms: list[Alarm] = []
        for left, window in zip(range(len(self.windows), 0, -1), self.windows, strict=True):
            memory = memory.remember(window)
            if left <= self.new and isinstance(memory, Watchful):
                alarms += memory.alarms
        return memory, tuple(alarms)

    @property
    def seen(self) -> Statistics:
        """What is remembered of departures."""
        return self.remembered[0].recall()


@dataclass(frozen=True, eq=False)
class Lesson:
    """Lesson: estimates, and the systems that they make.

    Attributes
    ----------
    classes : tuple of Learned
        The estimates.
    estimated : System
        The system with them.
    believed : System
        The system for which to make a policy.
    windows : int
        How many windows they are from.
    alarms : tuple of Alarm
        The changes that were found since the last lesson.
    """

    classes: tuple[Learned, ...]
    estimated: System
    believed: System
    windows: int = 0
    alarms: tuple[Alarm, ...] = ()

    @property
    def changed(self) -> set[str]:
        """The classes whose jobs are not what they were; who arrives how often says nothing of that."""
        return _changed(self.alarms)

    def as_mapping(self) -> dict[str, Any]:
        """Return the lesson as plain values, which JSON can hold."""
        made = plain(
            {
                "classes": [row.as_mapping() for row in self.classes],
                "estimated": system_to_mapping(self.estimated),
                "believed": system_to_mapping(self.believed),
                "windows": self.windows,
                "alarms": [alarm.as_mapping() for alarm in self.alarms],
            }
        )
        assert isinstance(made, dict)
        return made

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any]) -> Lesson:
        """Return what `as_mapping` has written."""
        try:
            return cls(
                tuple(Learned.from_mapping(row) for row in mapping["classes"]),
                system_from_mapping(mapping["estimated"], optional=RATES),
                system_from_mapping(mapping["believed"], optional=RATES),
                int(mapping["windows"]),
                tuple(map(Alarm.from_mapping, mapping["alarms"])),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InvalidInput(f"what was learned cannot be read: {type(error).__name__}: {error}") from None

    def require(self, system: System) -> None:
        """Raise `InvalidInput` unless the lesson is about the classes of a system."""
        for names in ([row.name for row in self.classes], self.estimated.names, self.believed.names):
            if names != system.names:
                raise InvalidInput(
                    f"what was learned is of classes {', '.join(names)}; the system has "
                    f"{', '.join(system.names)}"
                )


def _carried_over(guess: System, last: System) -> System:
    """Return what is known of classes, with what was last believed of those that stay."""
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


def _changed(alarms: Iterable[Alarm]) -> set[str]:
    return {alarm.name for alarm in alarms if alarm.kind not in ("arrival rate", RETRACTED)}


def conclude(asked: Question) -> Lesson:
    """Return what follows from all that was seen."""
    algorithm, before = asked.algorithm, asked.standing
    memory, alarms = asked.remembered
    changed = _changed(alarms)
    progress = zip(algorithm.system.names, asked.progress, strict=True)
    told = [_NOTHING if name in changed else marks for name, marks in progress]

    def refined(found: Estimates, seen: Statistics) -> Estimates:
        rows = zip(found.items(), seen.classes, told, before.estimated.classes, strict=True)
        better = {
            name: with_progress(row, table, marks, known.speedup) for (name, row), table, marks, known in rows
        }
        for why, table, known in zip(asked.too_short, seen.classes, before.estimated.classes, strict=False):
            if why:
                better[known.name] = without_curve(better[known.name], table, known.speedup, why)
        return Estimates(FrozenMapping(better))

    watchful = memory if isinstance(memory, Watchful) else None
    found, estimated, known = learned(algorithm, before, memory.recall(), watchful, refined)
    classes = tuple(Learned.of(row) for row in kept(found, estimated).values())
    return Lesson(classes, estimated, to_solve_for(algorithm, found, known), before.k, alarms)


class LiveLearner:
    """Learner of a live controller: it keeps windows and takes lessons, and concludes nothing itself.

    Attributes
    ----------
    algorithm : Algorithm
        How to learn.
    standing : LearnerState
        How much was seen, what was last believed, and a memory of the windows before those that are kept.
    taken, new : tuple of Statistics
        Windows that are kept: those that a lesson was about, and those since.
    """

    def __init__(self, algorithm: Algorithm) -> None:
        guess, _ = algorithm.beginning()
        self.algorithm = algorithm
        self.standing = LearnerState(0, 0, 0.0, guess, guess, None, algorithm.memory)
        self.taken: tuple[Statistics, ...] = ()
        self.new: tuple[Statistics, ...] = ()

    def on(self, algorithm: Algorithm) -> LiveLearner:
        """Return a learner that learns otherwise, or of other classes, from all that was seen so far.

        What was seen of classes that stay, by name, is remembered as one window: estimates are as they were,
        and changes are looked for from now on.
        """
        made = LiveLearner(algorithm)
        before = self.standing
        if not before.k:
            return made
        seen = self.remembers.recall().with_classes(algorithm.system.names)
        memory = algorithm.memory.remember(seen) if seen.departures else algorithm.memory
        made.standing = replace(
            made.standing,
            k=before.k,
            departures=before.departures,
            time=before.time,
            estimated=_carried_over(made.standing.estimated, before.estimated),
            believed=_carried_over(made.standing.believed, before.believed),
            memory=memory,
        )
        return made

    @property
    def wanted(self) -> int:
        """How many departures the next window has."""
        return self.algorithm.schedule.window(self.standing.k + 1)

    @property
    def remembers(self) -> Memory:
        """The memory of all windows."""
        return self.question((), ()).remembered[0]

    def question(
        self,
        progress: tuple[ClassProgress, ...],
        pauses: tuple[float, ...],
        cores: int | None = None,
        least_seen: int = 0,
        too_short: tuple[str, ...] = (),
    ) -> Question:
        """Return what to learn from."""
        windows, new = (*self.taken, *self.new), len(self.new)
        return Question(
            self.algorithm, self.standing, progress, pauses, cores, windows, new, least_seen, too_short
        )

    def observe(self, window: Statistics) -> None:
        """Keep a window."""
        before = self.standing
        self.standing = replace(
            before,
            k=before.k + 1,
            departures=before.departures + window.departures,
            time=before.time + window.time,
        )
        self.new = (*self.new, window)
        if len(self.new) > _MOST_KEPT:  # nobody answers: changes in it are not told
            self._take_windows(1)
            self.settle()

    def take(self, lesson: Lesson) -> None:
        """Believe what was concluded."""
        self.standing = replace(self.standing, estimated=lesson.estimated, believed=lesson.believed)
        self._take_windows(lesson.windows - self._told)
        if len(self.taken) > _MOST_KEPT:
            self.settle()

    def settle(self) -> None:
        """Remember the windows that a lesson was about."""
        memory = self.standing.memory
        for window in self.taken:
            memory = memory.remember(window)
        self.standing, self.taken = replace(self.standing, memory=memory), ()

    def settle_as(self, windows: int, memory: Memory) -> None:
        """Take over what somebody else has made of so many windows, if it is what `settle` would make."""
        if windows == self._told:
            self.standing, self.taken = replace(self.standing, memory=memory), ()

    @property
    def _told(self) -> int:
        """How many windows lessons were about."""
        return self.standing.k - len(self.new)

    def _take_windows(self, count: int) -> None:
        self.taken, self.new = (*self.taken, *self.new[: max(count, 0)]), self.new[max(count, 0) :]
