"""The loop of `corewise learn` on its way, saved now and then and at its end."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from corewise.errors import InvalidFile, InvalidInput

if TYPE_CHECKING:
    from corewise.learning.checkpoint import EpochRow
    from corewise.learning.loop import Learning

__all__ = ["LearnSession"]

_BETWEEN = 1.0  # seconds, from one time of saving to the next
_SHARE = 0.1  # of the time, for saving


class LearnSession:
    """A learning run under way: the loop, its clock and its checkpoints.

    Parameters
    ----------
    loop : Learning
        The loop.
    target : Path or None
        Where to save it.
    note : mapping
        What to save with it.

    Attributes
    ----------
    before : int
        How many windows were closed in an earlier run that is resumed.
    logged : int or None
        How many departures the log has, if one is replayed.
    parts : dict
        Seconds spent in each part of the loop since then; zero for what was not done.
    seconds : float
        And in all.
    interrupted : bool
        Whether it was stopped before its end.
    unsaved : InvalidFile or None
        Why the last attempt to save it failed, if it did.
    """

    def __init__(self, loop: Learning, target: Path | None, note: Mapping[str, Any]) -> None:
        from corewise.learning.plant import ReplayPlant

        state, plant = loop.learner.state, loop.plant
        self.algorithm = loop.learner.algorithm
        self.target = target
        self.before = state.k
        self.logged = state.departures + plant.left if isinstance(plant, ReplayPlant) else None
        self.parts = dict.fromkeys(("run", "estimate", "solve", "evaluate"), 0.0)
        self.seconds = 0.0
        self.interrupted = False
        self.unsaved: InvalidFile | None = None
        self._loop = loop
        self._note = note

    @property
    def unknown_rates(self) -> bool:
        """Whether arrival rates or size rates are learned as well."""
        return not self.algorithm.knows_rates

    @property
    def rows(self) -> list[EpochRow]:
        """The epochs that are over, those before a resumption included."""
        return self._loop.past

    @property
    def time(self) -> float:
        """When the last of them was over."""
        return float(self.rows[-1]["time"]) if self.rows else 0.0

    @cached_property
    def total(self) -> float:
        """How many departures there will be in all, at most."""
        schedule, steps = self.algorithm.schedule, self.algorithm.steps
        total = math.inf if steps is None else float(sum(map(schedule.window, range(1, steps + 1))))
        return total if self.logged is None else min(total, self.logged)

    @property
    def log_ended(self) -> bool:
        """Whether there are no more windows because there is no more of the log."""
        steps = self.algorithm.steps
        return self.logged is not None and not self.interrupted and (steps is None or len(self.rows) < steps)

    def require_a_window(self) -> None:
        """Raise `InvalidInput` if the log is over before the first window is."""
        first = self.algorithm.schedule.window(1)
        if self.logged is not None and self.logged < first:
            departures = "1 departure" if self.logged == 1 else f"{self.logged} departures"
            raise InvalidInput(f"the log has {departures}, and the first window has {first}")

    def run(self, progress: Callable[[float], None] | None) -> None:
        """Go on to the end or until Ctrl-C, and save the run if it is to be saved.

        A run is worth more than its file: if it cannot be saved it goes on all the same, see `unsaved`.
        """
        total, began = self.total, perf_counter()
        saved = began
        pause = _BETWEEN
        try:
            if progress and self.rows:
                progress(self.rows[-1]["departures"] / total)
            for epoch in self._loop:
                for part in self.parts:
                    if part != "evaluate" or epoch.mean_jobs is not None:
                        self.parts[part] += getattr(epoch.seconds, part)
                if progress:
                    progress(epoch.departures / total)
                now = perf_counter()
                if now - saved > pause:
                    self._save()
                    saved = perf_counter()
                    pause = max(_BETWEEN, (saved - now) / _SHARE)
        except KeyboardInterrupt:
            self.interrupted = True
        finally:
            self.seconds = perf_counter() - began
            self._save()

    def _save(self) -> None:
        if not (self.target and self.rows):
            return
        try:
            self._loop.save(self.target, note=self._note)
        except InvalidFile as error:
            self.unsaved = error
        except MemoryError:
            self.unsaved = InvalidFile(f"{self.target}: cannot be written: not enough memory")
        else:
            self.unsaved = None
