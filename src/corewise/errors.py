"""The errors of corewise: one tree, so that ``except corewise.CorewiseError`` catches them all.

::

    CorewiseError
    ├── InvalidInput (also ValueError)   a value that cannot be used; the message names it
    │   ├── InvalidCurve                 a speed-up curve that is not one
    │   ├── InvalidSystem                a class or a system that cannot be
    │   ├── InvalidPolicy                a policy that does not fit its system
    │   └── InvalidFile                  a file that cannot be read as what it should be
    │       ├── JournalLost              a journal that was removed or replaced while it was open
    │       └── JournalUnavailable       a journal that cannot be written for now: the disk is full, or fails
    ├── UnstableSystem                   more work arrives than all cores can do
    ├── UnstablePolicy                   the system could cope, but not under this policy
    ├── BoxTooLarge                      the state space does not fit in memory
    ├── NotConverged                     an iteration ended before its certificate was reached
    └── NotSettled                       a simulation ended before its mean converged

    UserWarning
    └── CurveMoved                       measured points that were moved to make a speed-up curve
"""

from __future__ import annotations

import re

__all__ = [
    "BoxTooLarge",
    "CorewiseError",
    "CurveMoved",
    "InvalidCurve",
    "InvalidFile",
    "InvalidInput",
    "InvalidPolicy",
    "InvalidSystem",
    "JournalLost",
    "JournalUnavailable",
    "NotConverged",
    "NotSettled",
    "UnstablePolicy",
    "UnstableSystem",
]


_LONGEST = 600  # characters of a message
_UNPRINTABLE = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")


class CorewiseError(Exception):
    """Whatever corewise refuses to do; the message says why and names the offending value.

    A message is one line, whatever the value: a long one is cut in its middle, and nothing in it moves the
    cursor.

    Examples
    --------
    >>> import corewise as cw
    >>> try:
    ...     cw.Amdahl(1.5)
    ... except cw.CorewiseError as error:
    ...     print(error)
    amdahl p must lie in [0, 1], got 1.5
    """

    def __init__(self, message: object = "") -> None:
        text = printable(re.sub(r"\s*[\r\n]\s*", " ", str(message)))
        if len(text) > _LONGEST:
            text = f"{text[: 2 * _LONGEST // 3]} … {text[-_LONGEST // 3 :]}"
        super().__init__(text)


class InvalidInput(CorewiseError, ValueError):
    """A value that cannot be used."""


class InvalidCurve(InvalidInput):
    """A speed-up curve that breaks s(z) = z below one core, nondecreasing, concave, finite."""


class InvalidSystem(InvalidInput):
    """A job class or a system that cannot be."""


class InvalidPolicy(InvalidInput):
    """A policy that does not fit the system it is asked to serve."""


class InvalidFile(InvalidInput):
    """A file that is missing, unreadable, or not what it should be."""


class JournalLost(InvalidFile):
    """A journal that was removed or replaced while it was open: what is written to it now is not kept."""


class JournalUnavailable(InvalidFile):
    """A journal that cannot be written for now, and may be later: the disk is full, or fails."""


class CurveMoved(UserWarning):
    """Measured points that are not concave, or above s(z) = z: the warning says which moved, and how far."""


class UnstableSystem(CorewiseError):
    """The load is one or more: no policy keeps the number of jobs finite."""


class UnstablePolicy(CorewiseError):
    """The number of jobs grows without bound under this policy, though another could cope."""


class BoxTooLarge(CorewiseError):
    """The state space asked for does not fit in memory."""


class NotConverged(CorewiseError):
    """An iteration ended before it reached its certificate."""


class NotSettled(CorewiseError):
    """A simulation is too short for an interval that covers: more events are needed than were allowed."""


def printable(text: str) -> str:
    """Return a text in which what moves the cursor or turns writing is spelt out, but for line breaks."""
    return _UNPRINTABLE.sub(lambda found: found.group().encode("unicode_escape").decode(), text)


def nearest(word: str, known: list[str]) -> str:
    """Return ``"; did you mean 'x'?"`` for the known word nearest to `word`, or all of them."""
    from difflib import get_close_matches

    close = get_close_matches(word[:_LONGEST], known, n=1, cutoff=0.5)
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; known: {', '.join(known)}"
