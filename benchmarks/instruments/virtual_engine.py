r"""Virtual engine: gangs of rounds in virtual time, thousands of jobs a second, for tests and studies.

A job works in rounds. A round on z cores does `grain` of work and takes grain/s(z); its width can change
between rounds only, as that of a gang does that works in lock-step. To change it the job stands still for
`pause`. Nothing is random here: sizes and arrivals are given, so that policies meet the same jobs.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import count

from corewise.live.state.controller import Controller
from corewise.live.state.instructions import Instruction, SetCores, Solve
from corewise.model.speedup import SpeedUp
from corewise.observation import events as happened

__all__ = ["VirtualEngine", "VirtualJob"]


@dataclass(frozen=True)
class VirtualJob:
    """Job in virtual time.

    Attributes
    ----------
    time : float
        When it arrives.
    job_class : str
        Its class.
    size : float
        Its work: the time it takes on one core.
    """

    time: float
    job_class: str
    size: float


@dataclass(slots=True)
class _Running:
    """A job under way: the work that is left, the cores it holds, those it was told, and whether it works."""

    job: VirtualJob
    left: float
    held: int = 0
    told: int = 0
    working: bool = False


class VirtualEngine:
    """Virtual engine: runs given jobs under a controller, in virtual time.

    Parameters
    ----------
    curves : mapping
        The true speed-up curve of each class, by name.
    grain : float or mapping
        The work of a round, as the time it takes on one core; one for each class, or the same for all.
    pause : float, optional
        How long a job stands still when its width changes.
    solve : callable, optional
        Answers a request to solve at once, given the controller and when the answer is to come.
    solve_time : float, optional
        How long that takes, in virtual time.
    progress : bool, optional
        Whether jobs tell of every round that they have done.
    """

    def __init__(
        self,
        curves: Mapping[str, SpeedUp],
        grain: float | Mapping[str, float],
        *,
        pause: float = 0.0,
        solve: Callable[[Controller, float], happened.Event] | None = None,
        solve_time: float = 0.0,
        progress: bool = False,
    ) -> None:
        self._speeds = {name: _speeds(curve) for name, curve in curves.items()}
        self._grains = grain if isinstance(grain, Mapping) else dict.fromkeys(curves, grain)
        self._pause, self._progress = pause, progress
        self._solve, self._solve_time = solve, solve_time
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._ids = count()
        self._now = 0.0
        self._running: dict[str, _Running] = {}
        self.responses: dict[str, list[float]] = {}
        """The response times of the jobs that have finished, by class and in order of departure."""
        self.held_time = 0.0
        """∫ cores held dt."""

    def run(self, jobs: Sequence[VirtualJob], controller: Controller) -> None:
        """Run jobs to their end."""
        self._controller = controller
        self.responses = {name: [] for name in self._speeds}
        for number, job in enumerate(jobs):
            self._at(job.time, partial(self._arrive, f"{job.job_class}-{number}", job))
        while self._agenda:
            self._now, _, action = heapq.heappop(self._agenda)
            action()

    def _at(self, time: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._agenda, (time, next(self._ids), action))

    def _tell(self, kind: type[happened.Event], *values: object) -> None:
        """Tell the controller, and do what it says."""
        self._obey(self._controller.handle(kind(self._now, str(next(self._ids)), *values)))

    def _obey(self, instructions: Iterable[Instruction]) -> None:
        for instruction in instructions:
            if isinstance(instruction, SetCores) and instruction.job in self._running:
                self._running[instruction.job].told = instruction.cores
                self._at(self._now, partial(self._begin, instruction.job))
            elif isinstance(instruction, Solve) and self._solve is not None:
                self._at(self._now + self._solve_time, self._answer)

    def _answer(self) -> None:
        assert self._solve is not None
        self._obey(self._controller.handle(self._solve(self._controller, self._now)))

    def _arrive(self, name: str, job: VirtualJob) -> None:
        self._running[name] = _Running(job, job.size)
        self._tell(happened.JobArrived, name, job.job_class)

    def _begin(self, name: str) -> None:
        """Let a job between two rounds take the width it was told, and work."""
        running = self._running.get(name)
        if running is None or running.working:
            return
        paused = 0.0
        if running.told != running.held:
            started = running.left < running.job.size
            paused = self._pause if started and running.told else 0.0
            running.held = running.told
            self._tell(happened.CoresHeld, name, running.held)
        if running.held and not running.working:
            running.working = True
            if paused:
                self._at(self._now + paused, partial(self._end_pause, name, paused))
            work = min(self._round(running.job.job_class), running.left)
            lasts = paused + work / self._speeds[running.job.job_class](running.held)
            self._at(self._now + lasts, partial(self._end_round, name, work, lasts))

    def _end_pause(self, name: str, paused: float) -> None:
        """Say how long a job stood still for its move."""
        running = self._running.get(name)
        if running is not None:
            self._tell(happened.CoresHeld, name, running.held, paused)

    def _round(self, job_class: str) -> float:
        """Return the work of the next round of a job."""
        return self._grains[job_class]

    def _mark(self, job_class: str, work: float) -> float:
        """Return the progress that is told of a round."""
        return work / self._grains[job_class]

    def _end_round(self, name: str, work: float, lasted: float) -> None:
        running = self._running[name]
        running.working = False
        running.left -= work
        self.held_time += running.held * lasted
        if self._progress:
            self._tell(happened.Progress, name, self._mark(running.job.job_class, work))
        if running.left > 1e-12 * running.job.size:
            self._begin(name)
            return
        del self._running[name]
        self.responses[running.job.job_class].append(self._now - running.job.time)
        self._tell(happened.JobFinished, name)


def _speeds(curve: SpeedUp) -> Callable[[int], float]:
    return cache(lambda cores: float(curve.rate(float(cores))))
