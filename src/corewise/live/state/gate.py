"""The gate of a live controller: which policy may take the place of the one in force, and why none does yet.

A policy is adopted once the classes that it is for have left often enough, given what was seen it beats EQUI
with a probability of nine tenths, and the one in force in the mean. Classes that have not left so often, or
whose rounds are too short to learn from, share equally beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from corewise.live.state.controller import Controller
    from corewise.observation.events import Solved

__all__ = ["departures_seen", "gain_in_words", "passes", "reason"]

_NAMED = 5  # classes in a sentence


def departures_seen(controller: Controller, name: str) -> int:
    """Return the departures of a class that its estimate is from."""
    found = controller.estimates
    row = None if found is None else found.get(name)
    return 0 if row is None else row.departures


def passes(controller: Controller, answer: Solved) -> bool:
    """Return whether the classes of a policy are known, and it beats EQUI, surely, and the one in force."""
    return not _seldom_seen(controller, answer) and answer.gain[1] > 0.0 and answer.gain_over_equi[0] > 0.0


def _seldom_seen(controller: Controller, answer: Solved) -> list[str]:
    """Return the classes of a policy that have not left often enough."""
    names = _classes(controller, answer)
    if controller.estimates is None:  # nothing was said of single classes
        return [] if controller.learner.standing.departures >= controller.options.least_seen else names
    return _unknown(controller, names)


def _classes(controller: Controller, answer: Solved) -> list[str]:
    return controller.system.names if answer.classes is None else list(answer.classes)


def _unknown(controller: Controller, names: Iterable[str]) -> list[str]:
    needed = controller.options.least_seen
    return [
        name
        for name in names
        if departures_seen(controller, name) < needed or _has_short_rounds(controller, name)
    ]


def _has_short_rounds(controller: Controller, name: str) -> bool:
    row = None if controller.estimates is None else controller.estimates.get(name)
    return row is not None and row.too_short


def reason(controller: Controller) -> str:
    """Return why EQUI or an earlier policy is in force, and which classes share equally; else nothing."""
    adopted, answer = controller.adopted, controller.answer
    if answer is None:
        return f"not adopted: {_nothing_yet(controller)}"
    if adopted is None:
        return f"not adopted: {_refusal(controller, answer)}"
    kept = [] if answer == adopted else [f"policy {adopted.request} stays: {_refusal(controller, answer)}"]
    return "; ".join([*kept, *_equal_shares(controller)])


def _nothing_yet(controller: Controller) -> str:
    learner = controller.learner
    if controller.request is not None:
        return f"request {controller.request} to solve is not answered yet"
    if learner.standing.k:
        return "no request to solve was answered"
    seen = f"{controller.tally.departures} of {learner.wanted} departures of the first window"
    waiting = controller.tally.departures >= learner.wanted
    return f"{seen}, and their jobs held cores for no time" if waiting else seen


def _refusal(controller: Controller, answer: Solved) -> str:
    """Return why the policy last solved for is not in force."""
    gain, seldom = answer.gain_over_equi, _seldom_seen(controller, answer)
    if seldom:
        return _counted(controller, seldom)
    if gain[0] > 0.0:
        return "the last policy solved for gains nothing over it"
    text = gain_in_words(gain) + (" is not sure" if gain[2] > 0.0 else "")
    others = set(controller.system.names) - set(_classes(controller, answer))
    left_out = _unknown(controller, [name for name in controller.system.names if name in others])
    return f"{text}; {_counted(controller, left_out)}" if left_out else text


def _counted(controller: Controller, names: Iterable[str]) -> str:
    return _listed([_missing(controller, name) for name in names])


def _missing(controller: Controller, name: str) -> str:
    """Return what is missing for a class to be part of a policy."""
    if _has_short_rounds(controller, name):
        return f"the rounds of {name} are too short to learn from"
    return f"{name} has {_of_needed(controller, name)}"


def _equal_shares(controller: Controller) -> list[str]:
    """Return which classes share equally beside the policy in force, and until when."""
    known = set(controller.policy_classes)
    names = [name for name in controller.system.names if name not in known]
    seldom = set(_unknown(controller, names))
    rows = [
        f"{name} shares equally"
        + (
            f": {_missing(controller, name).removeprefix(f'{name} has ')}"
            if name in seldom
            else " until a policy for it is adopted"
        )
        for name in names
    ]
    return [_listed(rows)] if rows else []


def _of_needed(controller: Controller, name: str) -> str:
    return f"{departures_seen(controller, name)} of {controller.options.least_seen} departures"


def _listed(rows: Sequence[str]) -> str:
    more = len(rows) - _NAMED
    return ", ".join([*rows[:_NAMED], *([f"and {more} more"] if more > 0 else [])])


def gain_in_words(gain: tuple[float, float, float]) -> str:
    """Return a gain over EQUI with its lower and its upper tenth."""
    low, middle, high = gain
    return f"gain over EQUI {middle:.1%} ({low:.1%} to {high:.1%})"
