r"""Slurm by its commands: one allocation is the pool, one step a worker.

A step cannot be resized, and a job only with rights that few have. So a pool is an allocation (`salloc
--no-shell`), and a job has as many steps as it holds cores: to grow it starts some (`srun --jobid … --exact
-n1 -c1`), to shrink it ends the newest (`scancel --signal=TERM J.k`). No rights are needed, and every version
can do it. What a job holds are the steps that Slurm says run, not those that were asked for.

A job is a *group*: a command that each of its workers runs, and that ends with exit code 0 once nothing is
left to do. What workers share, such as a queue of work, is theirs. A worker that is taken away gets SIGTERM;
what it was at must be done again by another.
"""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Protocol

from corewise.errors import CorewiseError
from corewise.kit import checks
from corewise.live.engines.base import JobSpec, RunsCommands, WorkerGroup
from corewise.live.engines.commanded import CommandedEngine, carried_out, give
from corewise.observation.events import CoresHeld, JobEnded, JobFinished

__all__ = ["Slurm", "SlurmEngine"]

_LOOK = 0.1  # seconds between two looks at steps that are to start


class Started(Protocol):
    """A command that runs: what `subprocess.Popen` gives."""

    def wait(self) -> int:
        """Return its exit code when it has ended."""
        ...

    def terminate(self) -> None:
        """Have it end."""
        ...


class Slurm:
    """Commands of Slurm about one allocation.

    Parameters
    ----------
    allocation : int
        Its number, as `salloc` says it.
    run : callable, optional
        Carries out a command, and returns its exit code and what it printed.
    start : callable, optional
        Starts a command.
    """

    def __init__(
        self,
        allocation: int,
        run: Callable[[Sequence[str]], tuple[int, str]] | None = None,
        start: Callable[[Sequence[str]], Started] | None = None,
    ) -> None:
        self.allocation = checks.count(allocation, "allocation")
        self._run = run or partial(carried_out, of="Slurm", server="slurmctld")
        self._start = start or _start

    def cores(self) -> int:
        """Return the cores of the allocation."""
        text = self._said("squeue", "--noheader", f"--jobs={self.allocation}", "--format=%C")
        if not text.strip().isdigit():
            raise CorewiseError(f"Slurm knows no allocation {self.allocation}: {checks.shown(text.strip())}")
        return int(text)

    def steps(self) -> dict[str, str]:
        """Return the numbers of the steps that run, by their names."""
        text = self._said("squeue", "--noheader", "--steps", f"--jobs={self.allocation}", "--format=%i %j")
        rows = [line.split(maxsplit=1) for line in text.splitlines()]
        return {row[1].strip(): row[0] for row in rows if len(row) == 2}  # a number and a name

    def stop(self, step: str) -> None:
        """Have a step end."""
        self._said("scancel", "--signal=TERM", step)

    def start(self, name: str, command: Sequence[str]) -> Started:
        """Start a worker as a step of that name."""
        step = ["--exact", "--ntasks=1", "--cpus-per-task=1", "--quiet", f"--job-name={name}"]
        return self._start(["srun", f"--jobid={self.allocation}", *step, *command])

    def _said(self, *command: str) -> str:
        code, text = self._run(command)
        if code:
            raise CorewiseError(f"{command[0]} failed with {code}: {checks.shown(text.strip())}")
        return text


def _start(command: Sequence[str]) -> Started:
    return subprocess.Popen(command, stdin=subprocess.DEVNULL)


@dataclass(slots=True, eq=False)
class _Worker:
    """A worker: the command that carries it, its step once that runs, and whether it was taken away."""

    name: str
    process: Started
    step: str | None = None
    withdrawn: bool = False


@dataclass(slots=True, eq=False)
class _StepJob:
    """A group at work, the newest worker last."""

    group: WorkerGroup
    wanted: int = 0
    workers: list[_Worker] = field(default_factory=list)
    done: int = 0
    ended: str | None = None

    @property
    def staying(self) -> list[_Worker]:
        return [worker for worker in self.workers if not worker.withdrawn]

    @property
    def held(self) -> int:
        return sum(worker.step is not None for worker in self.workers)


class SlurmEngine(CommandedEngine, RunsCommands):
    """Engine over an allocation of Slurm, which stays when the engine is closed; its jobs are worker groups.

    Parameters
    ----------
    slurm : Slurm or int
        The allocation, or its number.

    Examples
    --------
    ::

        allocation = 1234                         # of: salloc --no-shell --nodes=8 --exclusive
        with cw.LivePool(classes, SlurmEngine(allocation)) as pool:
            job = pool.command("encode", ["worker.py", "queue-7"])
    """

    def __init__(self, slurm: Slurm | int) -> None:
        self._slurm = Slurm(slurm) if isinstance(slurm, int) else slurm
        super().__init__("slurm", self._slurm.cores(), _LOOK)
        self._groups: dict[str, _StepJob] = {}
        self._numbers = count(1)

    # --- the thread ---------------------------------------------------------------------------------

    @property
    def _jobs(self) -> dict[str, _StepJob]:
        return self._groups

    def _add(self, job: JobSpec) -> None:
        assert isinstance(job, WorkerGroup)  # `require_kind` has checked it
        self._jobs[job.holding.name] = _StepJob(job)

    def _waits(self) -> bool:
        """Return whether a step is to start."""
        return any(worker.step is None for job in self._jobs.values() for worker in job.staying)

    def _look(self) -> None:
        """See which steps run by now."""
        try:
            running = self._slurm.steps()
        except CorewiseError:
            return  # asked again soon; the controller alerts if it takes too long
        for job in self._jobs.values():
            before = job.held
            for worker in job.workers:
                worker.step = worker.step or running.get(worker.name)
            if job.held != before:
                self._say(job)

    def _aim(self, name: str, cores: int) -> None:
        job = self._jobs.get(name)
        if job is None or job.ended is not None:
            return
        job.wanted = cores
        for worker in job.staying[cores:]:
            self._withdraw(worker)
        if not job.done:
            for _ in range(cores - len(job.staying)):
                self._hire(job)

    def _withdraw(self, worker: _Worker) -> None:
        """Take a worker away: signal its step, or if there is none yet, the command that waits for one."""
        worker.withdrawn = True
        if worker.step is None:
            worker.process.terminate()
            return
        with suppress(CorewiseError):  # it has just ended; if not, there is an alert for its cores
            self._slurm.stop(worker.step)

    def _hire(self, job: _StepJob) -> None:
        name = f"{job.group.holding.name}.{next(self._numbers)}"
        worker = _Worker(name, self._slurm.start(name, job.group.command))
        job.workers.append(worker)

        def wait() -> None:
            code = worker.process.wait()
            self._inbox.put(lambda: self._left(job, worker, code))

        threading.Thread(target=wait, name=f"corewise-{name}", daemon=True).start()

    def _left(self, job: _StepJob, worker: _Worker, code: int) -> None:
        """Take note of a worker that has ended: it was done, was taken away, or has failed."""
        job.workers.remove(worker)
        job.done += code == 0
        if code and not worker.withdrawn and job.ended is None:
            self._end(job.group.holding.name, "failed")
        if job.workers:
            self._say(job)
            return
        name = job.group.holding.name
        if job.ended is not None or (not job.done and not job.wanted):
            self._settle(job, name)
        elif job.done:
            self._finish(job, name)

    def _settle(self, job: _StepJob, name: str) -> None:
        """Let an ended group go; one that merely holds no cores stays."""
        self._say(job)
        if job.ended is None:
            return
        del self._jobs[name]
        self._report(JobEnded, name, job.ended)
        give(job.group.future, CorewiseError(f"job {name!r} was ended: {job.ended}"))

    def _finish(self, job: _StepJob, name: str) -> None:
        del self._jobs[name]
        self._report(JobFinished, name, then=partial(give, job.group.future, job.done))

    def _end(self, name: str, why: str) -> None:
        job = self._jobs.get(name)
        if job is None or job.ended is not None:
            return
        job.ended = why
        for worker in job.staying:
            self._withdraw(worker)
        if not job.workers:
            self._settle(job, name)

    def _say(self, job: _StepJob) -> None:
        job.group.holding.cores = job.held
        self._report(CoresHeld, job.group.holding.name, job.held)
