"""A scheduler of somebody else's: virtual jobs in real time, told of over HTTP by clients that lose things.

Jobs arrive, work as fast as their curve and their cores let them, and leave. Each belongs to one of several
clients, which tell what happens to it. Of their requests some are sent twice, some before the one that should
come first, and some are lost, with or without having been heard, and sent again. What happened, in order, is
kept to compare with.
"""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count

from corewise.errors import InvalidInput
from corewise.live.client import Client
from corewise.model.speedup import SpeedUp
from corewise.observation import events as happened

__all__ = ["Emulated", "LossyScheduler"]

_STEP = 0.01  # seconds between two looks at the jobs


@dataclass(frozen=True)
class Emulated:
    """Class of emulated jobs: how many a second arrive, one over their mean work, and how they scale."""

    arrival_rate: float
    size_rate: float
    curve: SpeedUp


@dataclass
class _Job:
    job_class: str
    client: int
    left: float
    held: int = 0
    told: int = 0
    since: float = 0.0


@dataclass
class _Sender:
    """What a client has yet to tell, and its own randomness."""

    client: Client
    rng: random.Random
    outbox: deque[happened.Event] = field(default_factory=deque)
    gone: set[str] = field(default_factory=set)


class LossyScheduler:
    """Scheduler of emulated jobs, steered by a service.

    Parameters
    ----------
    address, token : str
        The service.
    classes : mapping
        The classes of jobs.
    clients : int, optional
        How many clients tell of them.
    loss : float, optional
        The share of requests that are repeated, reordered or lost.
    seed : int, optional
        The seed of all randomness.
    """

    def __init__(
        self,
        address: str,
        token: str,
        classes: Mapping[str, Emulated],
        *,
        clients: int = 8,
        loss: float = 0.05,
        seed: int = 1,
    ) -> None:
        self._classes = classes
        self._rng = random.Random(seed)
        self._loss = loss
        self._follower = Client(address, token, patience=120.0)
        self._senders = [
            _Sender(Client(address, token, patience=120.0), random.Random(1000 * seed + k))
            for k in range(clients)
        ]
        self._jobs: dict[str, _Job] = {}
        self._numbers, self._ids = count(1), count(1)
        self._lock = threading.Lock()
        self._arriving, self._over = True, threading.Event()
        self.happened: list[happened.Event] = []
        """All that has happened, in order."""
        self.requests = self.mishaps = 0

    def run(self, seconds: float, *, drain: bool = False) -> None:
        """Have jobs arrive for some seconds, and stop; or go on until all have left."""
        senders = [threading.Thread(target=self._send, args=(sender,)) for sender in self._senders]
        follower = threading.Thread(target=self._follow)
        for thread in (*senders, follower):
            thread.start()
        began = time.monotonic()
        due = {name: self._rng.expovariate(row.arrival_rate) for name, row in self._classes.items()}
        while (now := time.monotonic() - began) < seconds or (drain and self._jobs):
            with self._lock:
                if now < seconds:
                    self._arrive(now, due)
                self._work(time.time())
            time.sleep(_STEP)
        self._over.set()
        for thread in (*senders, follower):
            thread.join()

    # --- jobs ---------------------------------------------------------------------------------------

    def _arrive(self, now: float, due: dict[str, float]) -> None:
        for name, row in self._classes.items():
            while due[name] <= now:
                due[name] += self._rng.expovariate(row.arrival_rate)
                number = next(self._numbers)
                job = f"{name}-{number}"
                size = self._rng.expovariate(row.size_rate)
                self._jobs[job] = _Job(name, number % len(self._senders), size, since=time.time())
                self._tell(self._jobs[job], happened.JobArrived, job, name)

    def _work(self, now: float) -> None:
        """Let jobs work up to now, leave if they are done, and else hold what they were told."""
        for name, job in list(self._jobs.items()):
            if job.held:
                job.left -= (now - job.since) * float(
                    self._classes[job.job_class].curve.rate(float(job.held))
                )
            job.since = now
            if job.left <= 0.0:
                del self._jobs[name]
                self._tell(job, happened.JobFinished, name)
            elif job.told != job.held:
                job.held = job.told
                self._tell(job, happened.CoresHeld, name, job.held)

    def _tell(self, job: _Job, kind: type[happened.Event], *values: object) -> None:
        event = kind(time.time(), f"e{next(self._ids)}", *values)
        self.happened.append(event)
        self._senders[job.client].outbox.append(event)

    # --- clients ------------------------------------------------------------------------------------

    def _follow(self) -> None:
        last = 0
        while not self._over.is_set():
            page = self._follower.instructions(last, 0.2)
            with self._lock:
                for told in page["instructions"]:
                    last = told["number"]
                    if told["kind"] == "set-cores" and told["job"] in self._jobs:
                        self._jobs[told["job"]].told = told["cores"]

    def _send(self, sender: _Sender) -> None:
        while not self._over.is_set() or sender.outbox:
            if not sender.outbox:
                time.sleep(_STEP)
                continue
            first = sender.outbox[0]
            mishap = sender.rng.random()
            self.requests += 1
            if mishap >= self._loss:
                self._say(sender, first)
                continue
            self.mishaps += 1
            if mishap < 0.25 * self._loss:  # said twice
                self._say(sender, first)
                self._quietly(sender, first)
            elif mishap < 0.5 * self._loss:  # lost on the way
                time.sleep(sender.rng.uniform(0.0, 0.03))
            elif mishap < 0.75 * self._loss:  # heard, but the answer was lost
                self._quietly(sender, first)
            elif len(sender.outbox) > 1:  # the next overtakes it
                self._quietly(sender, sender.outbox[1])

    def _say(self, sender: _Sender, event: happened.Event) -> None:
        """Tell until it is acknowledged; of a job whose end has overtaken it there is nothing left to say."""
        try:
            sender.client.tell([event])
        except InvalidInput:
            if getattr(event, "job", None) not in sender.gone:
                return  # too early: it will be told again
        self._acknowledge(sender, event)

    def _quietly(self, sender: _Sender, event: happened.Event) -> None:
        """Tell, and do not hear the answer."""
        with suppress(InvalidInput):
            sender.client.tell([event])
            if isinstance(event, happened.JobFinished):
                sender.gone.add(event.job)

    def _acknowledge(self, sender: _Sender, event: happened.Event) -> None:
        if isinstance(event, happened.JobFinished):
            sender.gone.add(event.job)
        sender.outbox.remove(event)
