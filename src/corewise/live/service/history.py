"""History of a pool: jobs and cores by class, and estimates, thinned out as it grows long."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from corewise.live.state.controller import Controller
from corewise.live.state.learned import Learned

__all__ = ["History"]

_SAMPLES = 1200
_ESTIMATES = 400


class History:
    """History of a pool, which has a bounded length: when it is full every other sample is dropped."""

    def __init__(self) -> None:
        self._every = 1.0  # seconds between two samples
        self._due = float("-inf")
        self._samples: list[tuple[float, tuple[int, ...], tuple[int, ...]]] = []
        self._names: list[str] = []
        self._known: Mapping[str, Learned] | None = None
        self._estimates: list[dict[str, Any]] = []

    def observe(self, controller: Controller) -> None:
        """Look at a controller that has handled an event."""
        if controller.system.names != self._names:  # samples are of other classes
            self._names, self._samples, self._due = controller.system.names, [], float("-inf")
        if controller.time >= self._due:
            self._sample(controller)
        if controller.estimates is not self._known:
            self._known = controller.estimates
            self._note(controller)

    def _sample(self, controller: Controller) -> None:
        held = [0] * len(controller.books)
        for job in controller.roster.active:
            held[job.job_class] += job.held
        self._samples.append((controller.time, controller.roster.counts, tuple(held)))
        if len(self._samples) > _SAMPLES:
            self._samples = self._samples[::2]
            self._every *= 2.0
        self._due = controller.time + self._every

    def _note(self, controller: Controller) -> None:
        if controller.estimates is None:
            return
        rows = {name: row.as_mapping() for name, row in controller.estimates.items()}
        self._estimates.append({"time": controller.time, "classes": rows})
        if len(self._estimates) > _ESTIMATES:
            self._estimates = [*self._estimates[:-1:2], self._estimates[-1]]

    def samples(self, names: tuple[str, ...]) -> dict[str, Any]:
        """Return jobs and cores by class over time."""
        return {
            "time": [time for time, _, _ in self._samples],
            "classes": [
                {
                    "name": name,
                    "jobs": [counts[i] for _, counts, _ in self._samples],
                    "held": [held[i] for _, _, held in self._samples],
                }
                for i, name in enumerate(names)
            ],
        }

    def estimates(self) -> list[dict[str, Any]]:
        """Return the estimates of each window, the latest last."""
        return list(self._estimates)
