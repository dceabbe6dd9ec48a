"""The changes that `corewise learn` found, as a table of its report."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from corewise.kit.report import Table

if TYPE_CHECKING:
    from corewise.model.system import System

__all__ = ["changes_table"]

_MOST = 10  # that are shown
_UNNAMED = {"speed": "speed: curve or size"}
_RATES = {"size_rate", "arrival_rate"}  # which the kind of a change says already


def changes_table(
    changes: Sequence[Mapping[str, Any]], between_alarms: float, truth: System | None = None
) -> Table:
    """Return the changes that were found: what and when, from what to what, and how sure that is.

    Parameters
    ----------
    changes : sequence of mapping
        What `changes_found` returns.
    between_alarms : float
        How many departures there are between false alarms, in the mean.
    truth : System, optional
        What was simulated: its own changes are shown beside those found.
    """
    chance = f"by chance one is found every {between_alarms:,.8g} departures"
    if not changes:
        return Table((), (), title=f"No change was found ({chance}).")
    last = changes[-_MOST:]
    count = "1 change was" if len(changes) == 1 else f"{len(changes):,} changes were"
    shown = "" if len(changes) == len(last) else f"; these are the last {len(last)}"
    when = "time\n(true)" if truth is not None and truth.changes else "time"
    head = ["class", "what\nfrom → to", "after departures\n95 % interval", when, "found after\nchance: 1 in"]
    rows = [_cells(change, truth) for change in last]
    return Table(head, rows, names=2, title=f"{count} found{shown} ({chance}).")


def _cells(change: Mapping[str, Any], truth: System | None) -> list[str]:
    sides = [(key, change["before"][key], value) for key, value in change["after"].items()]
    steps = [
        f"{old:.4g} → {new:.4g}{'' if new else ' (none since)'}"
        if key in _RATES
        else f"{key} {old:.4g} → {new:.4g}"
        for key, old, new in sides
    ]
    low, high = change["interval"]
    true_time = None if truth is None else _true_time(change, truth)
    return [
        change["name"],
        "\n".join([_UNNAMED.get(change["kind"], change["kind"]), *steps]),
        f"{change['departures']:,.0f}\n{low:,.0f}–{high:,.0f}",
        _time(change) + ("" if true_time is None else f"\n({true_time:,.8g})"),
        f"{change['raised']:,}\n{change['between']:.1e}",
    ]


def _time(change: Mapping[str, Any]) -> str:
    """Return when a change is most likely to have happened, with the digits that its interval leaves."""
    low, high = change["time_interval"]
    return f"{change['time']:,.{max(0, 1 - math.floor(math.log10(high - low)))}f}"


def _true_time(change: Mapping[str, Any], truth: System) -> float | None:
    """Return when the class truly changed, if it did so near where it was found to have.

    Near is no further from the interval than that is wide.
    """
    low, high = change["time_interval"]
    own = [true.time for true in truth.changes if true.name == change["name"]]
    near = [time for time in own if 2.0 * low - high <= time <= 2.0 * high - low]
    if change["kind"] == "arrival rate" or not near:  # only curves change in a simulation
        return None
    return min(near, key=lambda time: abs(time - change["time"]))
