"""A slow twin of the simulator: it follows single jobs, and knows nothing of Markov chains.

Every job brings a size of its own, the time it would take on one core, drawn from the exponential law of
its class. A job of class i that holds z = x_i/n_i cores works its size off at speed s_i(z); it leaves when
nothing is left of it. Jobs of a class arrive at exponential intervals. That is the whole model: sizes are
drawn when a job arrives, never again, and time goes on to whatever comes next. Python's own random numbers
are used.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tests.helpers import naive

Split = Callable[[naive.Model, naive.Counts], naive.Floats]


@dataclass
class Job:
    """A job in the system, or one that has left (`departed` is then finite)."""

    kind: int
    size: float
    arrived: float
    rest: float
    departed: float = math.inf

    @property
    def response_time(self) -> float:
        return self.departed - self.arrived


@dataclass(frozen=True)
class Window:
    """What happened: jobs by order of departure, the jobs that stayed, and when it was over."""

    gone: list[Job]
    here: list[Job]
    time: float

    def counts(self, classes: int) -> tuple[int, ...]:
        return tuple(sum(job.kind == i for job in self.here) for i in range(classes))

    @property
    def area(self) -> float:
        """The time that jobs spent inside the window, added up."""
        spent = [min(job.departed, self.time) - max(job.arrived, 0.0) for job in [*self.gone, *self.here]]
        return math.fsum(spent)

    def response_times(self, kind: int = 0) -> list[float]:
        """Those of the jobs of a class that arrived and left inside the window, by departure."""
        return [job.response_time for job in self.gone if job.kind == kind and job.arrived >= 0.0]


class Pool:
    """A pool of cores that serves jobs one by one."""

    def __init__(self, model: naive.Model, split: Split, seed: int) -> None:
        self.model, self.split, self.random = model, split, random.Random(seed)
        self._speeds: dict[tuple[int, ...], tuple[float, ...]] = {}

    def speeds(self, counts: tuple[int, ...]) -> tuple[float, ...]:
        """How fast a job of each class works when the counts are these; remembered, since asked so often."""
        if counts not in self._speeds:
            cores = self.split(self.model, np.array([counts]))[0]
            self._speeds[counts] = tuple(
                float(job.curve(np.array(x / n))) if n else 0.0
                for job, x, n in zip(self.model.jobs, cores, counts, strict=True)
            )
        return self._speeds[counts]

    def new_job(self, kind: int, arrived: float) -> Job:
        size = self.random.expovariate(self.model.jobs[kind].size)
        return Job(kind, size, arrived, size)

    def run(
        self, *, time: float = math.inf, departures: float = math.inf, start: Sequence[int] = ()
    ) -> Window:
        """Serve for a length of time or a number of departures, whichever is over first.

        What is left of jobs present at the start is again exponential, so they begin with sizes of their own.
        """
        classes = range(len(self.model.jobs))
        here = [self.new_job(i, -math.inf) for i, n in enumerate(start) for _ in range(n)]
        arrivals = [self.random.expovariate(self.model.jobs[i].arrival) for i in classes]
        gone: list[Job] = []
        counts, now = [sum(job.kind == i for job in here) for i in classes], 0.0
        while len(gone) < departures:
            speeds = self.speeds(tuple(counts))
            waits = [job.rest / speeds[job.kind] if speeds[job.kind] else math.inf for job in here]
            first, coming = min(waits, default=math.inf), min(arrivals)
            step = min(first, coming - now, time - now)
            for job in here:
                job.rest -= speeds[job.kind] * step
            now += step
            if now >= time:
                break
            if step == first:
                job = here.pop(waits.index(first))
                job.departed = now
                gone.append(job)
                counts[job.kind] -= 1
            else:
                now, kind = coming, arrivals.index(coming)
                here.append(self.new_job(kind, now))
                counts[kind] += 1
                arrivals[kind] += self.random.expovariate(self.model.jobs[kind].arrival)
        return Window(gone, here, min(now, time))
