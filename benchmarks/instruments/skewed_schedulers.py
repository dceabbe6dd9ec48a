"""Schedulers whose clocks differ: simulated jobs in real time, reported over HTTP, and moved as instructed.

Every scheduler has a clock of its own, by which it dates all events of its jobs. Jobs arrive, work as fast
as their curve and their cores let them, and leave; between two instructions all of that is computed, so that
times are exact however late the thread of a scheduler runs. A scheduler takes only cores that it was
instructed to take, confirms each move, refuses some, and sends events with the same ids until they are
acknowledged. Readers of the stream come and go beside them.
"""

from __future__ import annotations

import heapq
import json
import random
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from itertools import count
from queue import Empty, SimpleQueue
from typing import Any

from benchmarks.instruments.lossy_scheduler import Emulated

__all__ = ["Answers", "Happened", "Readers", "SkewedScheduler"]

_SOON, _LATER = 0.05, 1.0  # seconds between two tries
_POLL = 5.0  # seconds of a long poll
_PAUSE = 0.02  # seconds between two polls: what comes together is fetched together
_TIMEOUT = 20.0  # seconds to wait for an answer, beyond a long poll
_OK = 200
_PASSING = frozenset({408, 429, 500, 502, 503, 504})
_LONGEST_VISIT = 2.0  # seconds of a reader


@dataclass
class Answers:
    """Answers to requests: how many of each status, and when and what those were that should not have been.

    Attributes
    ----------
    statuses : Counter
        Answers by status; 0 counts requests without an answer.
    failed : list of (float, int, str)
        When, by `time.monotonic`, which status of 5xx or 0, and the text.
    refused : list of str
        Texts of 4xx.
    """

    statuses: Counter[int] = field(default_factory=Counter)
    failed: list[tuple[float, int, str]] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def add(self, status: int, text: str) -> None:
        """Count an answer."""
        self.statuses[status] += 1
        if status == 0 or status >= 500:
            self.failed.append((time.monotonic(), status, text))
        elif status >= 400:
            self.refused.append(text)


class _Wire:
    """Connection of one thread to the service."""

    def __init__(self, address: str, token: str, answers: Answers) -> None:
        self._host = address.removeprefix("http://")
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        self._connection: HTTPConnection | None = None
        self._answers = answers

    def ask(self, method: str, path: str, body: str | None = None, wait: float = 0.0) -> tuple[int, Any]:
        """Return the status and the JSON of an answer; 0 if there is none."""
        status, text = self._once(method, path, body, wait) if self._connection else (0, "")
        if not status:  # a connection that was idle for long may have been closed: that is no failure
            status, text = self._once(method, path, body, wait)
        self._answers.add(status, text[:300])
        return status, json.loads(text) if status == _OK else text

    def _once(self, method: str, path: str, body: str | None, wait: float) -> tuple[int, str]:
        if self._connection is None:
            self._connection = HTTPConnection(self._host, timeout=_TIMEOUT + wait)
        try:
            self._connection.request(method, path, body, self._headers)
            response = self._connection.getresponse()
            return response.status, response.read().decode()
        except (OSError, HTTPException) as error:
            self._connection.close()
            self._connection = None
            return 0, f"{type(error).__name__}: {error}"


@dataclass(frozen=True)
class Happened:
    """Event that has happened: when in truth, what was sent of it, and whether that was acknowledged."""

    at: float
    sent: Mapping[str, Any]
    acknowledged: bool


@dataclass
class _Job:
    job_class: str
    left: float
    since: float
    held: int = 0
    rate: float = 0.0

    @property
    def due(self) -> float:
        """When it will have finished."""
        return self.since + self.left / self.rate if self.rate else float("inf")


class SkewedScheduler:
    """Scheduler with a clock of its own, steered by a service.

    Parameters
    ----------
    address, token : str
        The service.
    number : int
        The scheduler; its jobs and ids begin with it.
    classes : mapping
        The classes of its jobs, with its own arrival rates.
    clock : float
        How many seconds its clock is ahead.
    refusals : float
        The share of moves that it refuses.
    seed : int
        The seed of its randomness.
    answers : Answers
        Where answers are counted.
    """

    def __init__(
        self,
        address: str,
        token: str,
        number: int,
        classes: Mapping[str, Emulated],
        *,
        clock: float,
        refusals: float,
        seed: int,
        answers: Answers,
    ) -> None:
        self._stem, self._names_generations = f"s{number}-", number % 2 == 0
        self._classes, self.clock, self._refusals = classes, clock, refusals
        self._rng = random.Random(f"{seed} {number}")
        self._posts, self._polls = (_Wire(address, token, answers) for _ in range(2))
        self._epoch = time.time() - time.monotonic()
        self._due = {name: self._now() + self._gap(name) for name in classes}
        self._jobs: dict[str, _Job] = {}
        self._numbers, self._ids = count(1), count(1)
        self._instructed: SimpleQueue[tuple[str, tuple[int, int]]] = SimpleQueue()
        self.over = threading.Event()
        """Set it to end."""
        self._threads = [threading.Thread(target=act, daemon=True) for act in (self._run, self._follow)]
        self.happened: list[Happened] = []
        """All that has happened, in the order in which it was sent."""
        self.instructions: list[tuple[int, str, int]] = []
        """Numbers, jobs and cores of the instructions that it got."""
        self.moves = self.refused_moves = 0
        self.waited = 0.0
        """The longest time that one of its jobs has held no core."""

    def start(self) -> None:
        """Begin."""
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        """Wait until it has ended: what has happened is acknowledged, or it has tried for long."""
        for thread in self._threads:
            thread.join()

    @property
    def open_jobs(self) -> int:
        """Its jobs that have not finished."""
        return len(self._jobs)

    def _now(self) -> float:
        """Return the true time, which does not step."""
        return self._epoch + time.monotonic()

    def _gap(self, name: str) -> float:
        return self._rng.expovariate(self._classes[name].arrival_rate)

    # --- jobs -----------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self.over.is_set():
            moves = self._wait()
            now = self._now()
            rows = self._until(now)
            rows += [row for job, told in moves.items() for row in self._move(now, job, *told)]
            if rows:
                self._send(rows)

    def _wait(self) -> dict[str, tuple[int, int]]:
        """Wait for an instruction, or until something is due; return the last instruction of each job."""
        due = min(*self._due.values(), *(job.due for job in self._jobs.values()), self._now() + 0.5)
        moves: dict[str, tuple[int, int]] = {}
        with suppress(Empty):
            job, told = self._instructed.get(timeout=max(due - self._now(), 0.0))
            while True:
                moves[job] = told
                job, told = self._instructed.get_nowait()
        return moves

    def _until(self, now: float) -> list[tuple[float, dict[str, Any]]]:
        """Return who arrived and who finished until now, in the order in which it happened."""
        rows: list[tuple[float, dict[str, Any]]] = []
        while True:
            at, name, job = min(
                *((due, name, "") for name, due in self._due.items()),
                *((row.due, row.job_class, job) for job, row in self._jobs.items()),
            )
            if at > now:
                return rows
            if job:
                del self._jobs[job]
                rows.append((at, {"kind": "job-finished", "job": job}))
                continue
            job = f"{self._stem}{next(self._numbers)}"
            self._jobs[job] = _Job(name, self._rng.expovariate(self._classes[name].size_rate), at)
            self._due[name] = at + self._gap(name)
            rows.append((at, {"kind": "job-arrived", "job": job, "job_class": name}))

    def _move(self, now: float, name: str, cores: int, generation: int) -> list[tuple[float, dict[str, Any]]]:
        """Return what comes of an instruction: the job holds the cores, or the move is refused.

        Every other scheduler names the instruction that it answers.
        """
        job = self._jobs.get(name)
        if job is None:
            return []
        about: dict[str, Any] = {"job": name, "cores": cores}
        about |= {"generation": generation} if self._names_generations else {}
        self.moves += 1
        if cores != job.held and self._rng.random() < self._refusals:
            self.refused_moves += 1
            return [(now, {"kind": "move-refused", **about, "why": "the node is busy"})]
        if not job.held:
            self.waited = max(self.waited, now - job.since)
        job.left -= (now - job.since) * job.rate
        job.since, job.held = now, cores
        job.rate = float(self._classes[job.job_class].curve.rate(float(cores))) if cores else 0.0
        return [(now, {"kind": "cores-held", **about})]

    # --- the wire -------------------------------------------------------------------------------------

    def _send(self, rows: Sequence[tuple[float, dict[str, Any]]]) -> None:
        """Send events, dated by the clock of this scheduler, until they are acknowledged or refused."""
        sent = [{"id": f"{self._stem}e{next(self._ids)}", "time": at + self.clock, **row} for at, row in rows]
        body, pause, status = json.dumps(sent), _SOON, 0
        tries_left = 20  # once all is over
        while tries_left:
            status, _ = self._posts.ask("POST", "/v1/events", body)
            if status and status not in _PASSING:
                break
            tries_left -= self.over.is_set()
            time.sleep(pause)
            pause = min(2.0 * pause, _LATER)
        done = status == _OK
        self.happened += [Happened(at, row, done) for (at, _), row in zip(rows, sent, strict=True)]

    def _follow(self) -> None:
        last = 0
        while not self.over.is_set():
            path = f"/v1/instructions?after={last}&wait={_POLL}"
            status, page = self._polls.ask("GET", path, wait=_POLL)
            if status != _OK:
                time.sleep(5.0 * _SOON)
                continue
            for row in page["instructions"]:
                last = row["number"]
                if row["kind"] == "set-cores" and row["job"].startswith(self._stem):
                    self.instructions.append((last, row["job"], row["cores"]))
                    self._instructed.put((row["job"], (row["cores"], row["generation"])))
            time.sleep(_PAUSE)


class Readers:
    """Readers of the stream that come and go, many a second, most of them without reading.

    Parameters
    ----------
    address : str
        The service.
    rate : float
        How many come a second.
    seed : int
        The seed of their randomness.
    answers : Answers
        Where the answers of those that read are counted.
    """

    def __init__(self, address: str, rate: float, seed: int, answers: Answers) -> None:
        host, port = address.removeprefix("http://").split(":")
        self._place = (host, int(port))
        self._request = f"GET /v1/stream HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode()
        self._rate, self._rng, self._answers = rate, random.Random(seed), answers
        self.over = threading.Event()
        """Set it to end."""
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.opened = self.read = 0

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def join(self) -> None:
        """Wait until it has ended."""
        self._thread.join()

    def _run(self) -> None:
        there: list[tuple[float, int, socket.socket]] = []
        due = time.monotonic()
        while not self.over.is_set():
            now = time.monotonic()
            while due <= now:
                due += self._rng.expovariate(self._rate)
                self._open(there, now)
            while there and there[0][0] <= now:
                self._close(heapq.heappop(there)[2])
            time.sleep(max(min(due, there[0][0] if there else due) - time.monotonic(), 0.0))
        for _, _, reader in there:
            reader.close()

    def _open(self, there: list[tuple[float, int, socket.socket]], now: float) -> None:
        try:
            reader = socket.create_connection(self._place, timeout=5.0)
            reader.sendall(self._request)
        except OSError as error:
            self._answers.add(0, f"{type(error).__name__}: {error}")
            return
        self.opened += 1
        # Half of them leave at once, while their state is being looked up.
        longest = 0.05 if self._rng.random() < 0.5 else _LONGEST_VISIT
        heapq.heappush(there, (now + self._rng.uniform(0.0, longest), self.opened, reader))

    def _close(self, reader: socket.socket) -> None:
        """Leave: a third after having read what is there, a third without, a third by a reset."""
        way = self._rng.randrange(3)
        with suppress(OSError):
            if way == 0:
                reader.setblocking(False)
                head = reader.recv(65_536)
                if head.startswith(b"HTTP/1.1 "):
                    self.read += 1
                    self._answers.add(int(head[9:12]), head[:300].decode(errors="replace"))
            elif way == 1:
                reader.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        reader.close()
