"""Lessons: what is concluded from all that a live pool has seen, somewhere else, as values for a journal.

To estimate takes milliseconds, and at times a tenth of a second: too long for the thread that answers every
event. So a controller only remembers, and asks a `Question`; the `Lesson` comes back with a policy, in an
event. A replay then estimates nothing, and no other machine or version concludes anything else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from corewise.errors import InvalidInput
from corewise.estimation.changes.alarms import Alarm
from corewise.estimation.estimates import Estimates
from corewise.estimation.from_progress import with_progress
from corewise.kit.frozen import FrozenMapping
from corewise.kit.jsonable import plain
from corewise.learning.algorithms import Algorithm, adaptive
from corewise.learning.checkpoint import LearnerState
from corewise.learning.conclusions import kept, learned, to_solve_for
from corewise.learning.memories import Watchful
from corewise.live.learned import Learned
from corewise.model.files import RATES, system_from_mapping, system_to_mapping
from corewise.model.system import System
from corewise.observation.progress import ClassProgress
from corewise.observation.statistics import Statistics

__all__ = ["FIRST_WINDOW", "Lesson", "LiveLearner", "Question", "conclude", "how_to_learn"]

FIRST_WINDOW = 50
"""Departures in the first window, if nothing else is said."""


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
        What was believed, and what is remembered.
    progress : tuple of ClassProgress
        What jobs have told of their progress.
    pauses : tuple of float
        How long a job of each class stands still when it is resized, as far as is known.
    cores : int or None
        The cores that there are now; None for those of the system.
    """

    algorithm: Algorithm
    standing: LearnerState
    progress: tuple[ClassProgress, ...]
    pauses: tuple[float, ...] = ()
    cores: int | None = None

    @property
    def seen(self) -> Statistics:
        """What is remembered of departures."""
        return self.standing.memory.recall()


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
    """

    classes: tuple[Learned, ...]
    estimated: System
    believed: System

    def as_mapping(self) -> dict[str, Any]:
        """Return the lesson as plain values, which JSON can hold."""
        made = plain(
            {
                "classes": [row.as_mapping() for row in self.classes],
                "estimated": system_to_mapping(self.estimated),
                "believed": system_to_mapping(self.believed),
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


def conclude(asked: Question) -> Lesson:
    """Return what follows from all that was seen."""

    def refined(found: Estimates, seen: Statistics) -> Estimates:
        rows = zip(found.items(), seen.classes, asked.progress, before.estimated.classes, strict=True)
        better = {
            name: with_progress(row, table, marks, known.speedup) for (name, row), table, marks, known in rows
        }
        return Estimates(FrozenMapping(better))

    algorithm, before = asked.algorithm, asked.standing
    memory = before.memory
    watchful = memory if isinstance(memory, Watchful) else None
    found, estimated, known = learned(algorithm, before, memory.recall(), watchful, refined)
    classes = tuple(Learned.of(row) for row in kept(found, estimated).values())
    return Lesson(classes, estimated, to_solve_for(algorithm, found, known))


class LiveLearner:
    """Learner of a live controller: it remembers windows and takes lessons, and concludes nothing itself.

    Attributes
    ----------
    algorithm : Algorithm
        How to learn.
    standing : LearnerState
        What is remembered, and what was last believed.
    """

    def __init__(self, algorithm: Algorithm) -> None:
        guess, _ = algorithm.beginning()
        self.algorithm = algorithm
        self.standing = LearnerState(0, 0, 0.0, guess, guess, None, algorithm.memory)
        self._window = (0, 0)  # its number, and its departures

    @property
    def wanted(self) -> int:
        """How many departures the next window has."""
        k = self.standing.k + 1
        if self._window[0] != k:
            self._window = (k, self.algorithm.schedule.window(k))
        return self._window[1]

    def observe(self, window: Statistics) -> tuple[Alarm, ...]:
        """Remember a window; return the changes that were found at its end."""
        before = self.standing
        memory = before.memory.remember(window)
        self.standing = replace(
            before,
            k=before.k + 1,
            departures=before.departures + window.departures,
            time=before.time + window.time,
            memory=memory,
        )
        return memory.alarms if isinstance(memory, Watchful) else ()

    def take(self, lesson: Lesson) -> None:
        """Believe what was concluded."""
        self.standing = replace(self.standing, estimated=lesson.estimated, believed=lesson.believed)
