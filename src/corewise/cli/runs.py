"""What `corewise simulate` has to do, and what came of it: one run, or several of the same."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from corewise.errors import CorewiseError

if TYPE_CHECKING:
    from corewise.model.system import System
    from corewise.observation.sample_path import SamplePath
    from corewise.policies.base import Policy
    from corewise.simulation.replicate import Percentile, Replications
    from corewise.simulation.simulator import Progress, Run

__all__ = ["Outcome", "Task"]


@dataclass(frozen=True)
class ClassOutcome:
    """What was seen of one class, in one run or in all."""

    name: str
    arrivals: int
    departures: int
    mean_jobs: float
    interval: tuple[float, float]
    mean_response_time: float
    percentiles: tuple[Percentile, ...]


@dataclass(frozen=True)
class Outcome:
    """What was seen in one run or in several; `state` is where a single one ended."""

    policy: str
    mean_jobs: float
    interval: tuple[float, float]
    mean_response_time: float
    events: int
    departures: int
    time: float
    replications: int
    state: tuple[int, ...] | None
    classes: tuple[ClassOutcome, ...]


@dataclass(frozen=True)
class Task:
    """What to simulate: a number of departures, or a length of time."""

    departures: int | None
    time: float | None
    seed: int
    start: list[int] | None
    replications: int
    percents: list[float]
    record: bool

    @property
    def total(self) -> float:
        """How much is to be done, in all replications."""
        return self.replications * (self.departures or self.time or 0.0)

    @property
    def unit(self) -> str:
        """What `total` counts."""
        return "departures" if self.departures else "units of time"

    def check_memory(self, system: System) -> None:
        """Refuse to record more events than memory can hold, before the time is spent."""
        from corewise.model.space import available_memory

        if not (self.record or self.percents):
            return
        departures = self.departures or (self.time or 0.0) * float(system.arrival_rates.sum())
        events = 2.0 * departures  # as many jobs arrive
        needed = events * (100 + 24 * len(system.classes)) / 2**30
        available = available_memory() / 2**30
        if needed > available:
            raise CorewiseError(
                f"--events, --percentiles and --plot keep every event in memory: about {events:.3g} of them "
                f"need {needed:,.0f} GiB, and this machine has {available:,.1f} GiB for it; simulate fewer"
            )

    def carry_out(
        self, system: System, policy: Policy, progress: Progress | None
    ) -> tuple[Outcome, SamplePath | None]:
        """Return what was seen, and the path of a single run if it was recorded."""
        if self.replications > 1:
            from corewise.simulation.replicate import replicate

            found = replicate(
                system,
                policy,
                n=self.replications,
                departures=self.departures,
                time=self.time,
                rng=self.seed,
                start=self.start,
                percentiles=self.percents,
                progress=progress,
            )
            percentiles = {name: row.percentiles for name, row in found.classes.items()}
            return _outcome_of(found, found.runs, percentiles), None
        from corewise.simulation.simulator import simulate as simulate_policy

        run = simulate_policy(
            system,
            policy,
            departures=self.departures,
            time=self.time,
            rng=self.seed,
            start=self.start,
            record=self.record or bool(self.percents),
            progress=progress,
        )
        percentiles = {name: self._percentiles(run, name) for name in run.classes}
        return _outcome_of(run, (run,), percentiles), run.path

    def _percentiles(self, run: Run, name: str) -> tuple[Percentile, ...]:
        """Return percentiles of the response times of a class, without intervals; NaN if none was seen."""
        import numpy as np

        from corewise.simulation.replicate import Percentile

        if not self.percents:
            return ()
        assert run.path is not None
        times = run.path.response_times[name]
        values = np.percentile(times, self.percents) if times.size else np.full(len(self.percents), np.nan)
        return tuple(
            Percentile(percent, value, (math.nan, math.nan))
            for percent, value in zip(self.percents, values.tolist(), strict=True)
        )


def _outcome_of(
    found: Run | Replications, runs: Sequence[Run], percentiles: Mapping[str, tuple[Percentile, ...]]
) -> Outcome:
    time = math.fsum(run.time for run in runs)
    return Outcome(
        policy=found.policy,
        mean_jobs=found.mean_jobs,
        interval=found.interval,
        mean_response_time=found.mean_jobs * time / found.departures if found.departures else math.nan,
        events=found.events,
        departures=found.departures,
        time=time,
        replications=len(runs),
        state=runs[0].state.counts if len(runs) == 1 else None,
        classes=tuple(
            ClassOutcome(
                name=name,
                arrivals=sum(run.classes[name].arrivals for run in runs),
                departures=sum(run.classes[name].departures for run in runs),
                mean_jobs=row.mean_jobs,
                interval=row.interval,
                mean_response_time=row.mean_response_time,
                percentiles=percentiles[name],
            )
            for name, row in found.classes.items()
        ),
    )
