"""Client of a service: what a scheduler needs to be steered, with nothing but the standard library.

Events are sent until they are acknowledged: requests are idempotent, as events have ids.

::

    client = Client("http://127.0.0.1:8410", token=Path("pool.db.token").read_text().strip())
    client.arrived("train-7", "training")
    for row in client.follow():
        resize(row["job"], row["cores"])
        client.held(row["job"], row["cores"], generation=row["generation"])
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from threading import local
from typing import Any, Literal
from urllib.parse import quote, urlencode, urlsplit

from corewise.errors import CorewiseError, InvalidInput
from corewise.kit import checks
from corewise.observation import events as happened

__all__ = ["Client"]

_AGAIN = frozenset({408, 429, 500, 502, 503, 504})  # what may pass
_SOON, _LATER = 0.05, 2.0  # seconds between two tries
_WAIT = 25.0  # seconds of a long poll
_OK = 200


class _Plain(HTTPConnection):
    """Connection that ends with the thread or the client that it belongs to."""

    def __del__(self) -> None:
        """Close it."""
        self.close()


class _Secret(_Plain, HTTPSConnection):
    """The same over TLS."""


class Client:
    """Client of a service; each thread has a connection of its own.

    Parameters
    ----------
    url : str
        Where the service is, such as ``"http://127.0.0.1:8410"``, with a path if a proxy has it below one.
    token : str, optional
        The token; writing needs it, and reading from elsewhere.
    patience : float, optional
        For how many seconds to try again if there is no answer.
    timeout : float, optional
        How many seconds to wait for one answer.
    """

    def __init__(
        self, url: str, token: str | None = None, *, patience: float = 60.0, timeout: float = 10.0
    ) -> None:
        parts = urlsplit(url if isinstance(url, str) else "")
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise InvalidInput(f"url must be like 'http://127.0.0.1:8410', got {checks.shown(url)}")
        self._parts = parts
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._patience = checks.within(patience, 0.0, float("inf"), "patience")
        self._timeout = checks.positive(timeout, "timeout")
        self._mine = local()

    # --- reports ------------------------------------------------------------------------------------

    def tell(self, events: Iterable[happened.Event]) -> dict[str, Any]:
        """Report events, all or none, and return the answer once they are safe."""
        rows = [happened.event_to_mapping(event) for event in events]
        return self._ask("POST", "/v1/events", rows)

    def arrived(
        self, job: str, job_class: str, *, least: int | None = None, most: int | None = None
    ) -> dict[str, Any]:
        """Report the arrival of a job."""
        return self._tell(happened.JobArrived, job, job_class, least, most)

    def present(self, job: str, job_class: str, held: int) -> dict[str, Any]:
        """Report a job that was there before the observation began."""
        return self._tell(happened.JobPresent, job, job_class, held)

    def held(
        self, job: str, cores: int, *, paused: float = 0.0, generation: int | None = None
    ) -> dict[str, Any]:
        """Report the cores of a job from now on, and for how many seconds it stood still for the move.

        `generation` is that of the instruction which was carried out: with it, no core is promised twice
        though instructions cross with answers.
        """
        return self._tell(happened.CoresHeld, job, cores, paused, generation)

    def refused(
        self, job: str, cores: int, why: str, *, fits: int | None = None, generation: int | None = None
    ) -> dict[str, Any]:
        """Report that a job cannot hold so many cores, why, and how many would fit if that is known."""
        return self._tell(happened.MoveRefused, job, cores, why, fits, generation)

    def progress(self, job: str, amount: float, fraction: float | None = None) -> dict[str, Any]:
        """Report the work that a job has done since its last report, and the fraction that is done."""
        return self._tell(happened.Progress, job, amount, fraction)

    def finished(self, job: str) -> dict[str, Any]:
        """Report that a job has done its work."""
        return self._tell(happened.JobFinished, job)

    def ended(self, job: str, why: Literal["failed", "cancelled", "lost"]) -> dict[str, Any]:
        """Report that a job has left without having done its work."""
        return self._tell(happened.JobEnded, job, why)

    def pool_changed(self, cores: int) -> dict[str, Any]:
        """Report the number of cores of the pool."""
        return self._tell(happened.PoolChanged, cores)

    def _tell(self, kind: type[happened.Event], *values: Any) -> dict[str, Any]:
        return self.tell([kind(time.time(), uuid.uuid4().hex, *values)])

    def reconcile(self, jobs: Iterable[Mapping[str, Any]], at: float | None = None) -> dict[str, Any]:
        """Say which jobs there are, running or waiting; return what was put right, and what is to be done.

        Parameters
        ----------
        jobs : iterable of mapping
            Each with ``job``, ``job_class`` and the ``cores`` that it holds, 0 if it waits; ``least`` and
            ``most`` if it has limits of its own.
        at : float, optional
            When that was so, in seconds since 1970; by default now.
        """
        body = {"time": time.time() if at is None else at, "jobs": [dict(row) for row in jobs]}
        return self._ask("PUT", "/v1/jobs", body)

    def set_mode(self, mode: happened.Mode) -> None:
        """Watch, steer or hold from now on."""
        self._ask("PUT", "/v1/mode", {"mode": mode})

    def set_limits(self, job_class: str, least: int = 1, most: int | None = None) -> None:
        """Set the fewest and the most cores of the jobs of a class that have no limits of their own."""
        self._ask("PUT", "/v1/limits", {"job_class": job_class, "least": least, "most": most})

    # --- asking -------------------------------------------------------------------------------------

    def instructions(
        self, after: int = 0, wait: float = 0.0, *, journal: str | None = None
    ) -> dict[str, Any]:
        """Return the instructions behind a number, the number of the last there is, and of which journal.

        `InvalidInput` if the number is one of another journal than this one, or beyond the last.
        """
        query = {"after": after, "wait": wait} | ({} if journal is None else {"journal": journal})
        return self._ask("GET", f"/v1/instructions?{urlencode(query)}", longer=wait)

    def follow(self, after: int | None = None, *, journal: str | None = None) -> Iterator[dict[str, Any]]:
        """Yield instructions to set cores as they come: each at least once, and none that was overtaken.

        By default the first ones are those that jobs have yet to follow, whenever they were given: a
        scheduler that begins again, or reports a job before, misses nothing and need not remember anything.
        Their number is that of the last instruction there is.

        Parameters
        ----------
        after : int, optional
            The last number that was carried out, to have those behind it.
        journal : str, optional
            The journal that it is a number of.

        Raises
        ------
        InvalidInput
            If `after` is a number of another journal, or the service goes on with another one.
        """
        if after is None:
            now = self.allocation()
            after, journal = int(now["last"]), now["journal"]
            waiting = [row for row in now["jobs"] if row["told"] != row["held"]]
            for row in sorted(waiting, key=lambda row: row["told"] - row["held"]):  # shrinks come first
                instructed = {"job": row["job"], "cores": row["told"], "generation": row["generation"]}
                yield {"number": after, "kind": "set-cores", **instructed}
        while True:
            page = self.instructions(after, _WAIT, journal=journal)
            journal = page["journal"]
            for row in page["instructions"]:
                after = row["number"]
                if row["kind"] == "set-cores":
                    yield row

    def allocation(self) -> dict[str, Any]:
        """Return the cores that every job holds, is instructed to hold and should hold."""
        return self._ask("GET", "/v1/allocation")

    def explanation(self, job: str) -> dict[str, Any]:
        """Return why a job holds the cores that it holds."""
        return self._ask("GET", f"/v1/jobs/{quote(job, safe='')}/explanation")

    def estimates(self) -> dict[str, Any]:
        """Return what has been learned of each class."""
        return self._ask("GET", "/v1/estimates")

    def report(self) -> dict[str, Any]:
        """Return what the pool does, has learned, and expects to gain."""
        return self._ask("GET", "/v1/report")

    def states(self) -> Iterator[dict[str, Any]]:
        """Yield the state of the pool, now and whenever it has changed, until the service stops."""
        connection = self._connection()
        path = self._parts.path.rstrip("/") + "/v1/stream"
        connection.request("GET", path, headers={**self._headers, "Accept": "text/event-stream"})
        with connection.getresponse() as response:
            _require_fine(response.status, response)
            for line in response:
                if line.startswith(b"data:"):
                    yield json.loads(line[5:])

    # --- the wire -----------------------------------------------------------------------------------

    def _ask(self, method: str, path: str, body: object = None, *, longer: float = 0.0) -> dict[str, Any]:
        """Ask until there is an answer; `InvalidInput` if it is that this cannot be."""
        until = time.monotonic() + self._patience
        content = None if body is None else json.dumps(body).encode()
        pause = _SOON
        while True:
            try:
                status, answer = self._once(method, path, content, longer)
            except (OSError, HTTPException) as error:
                self._drop()
                why = f"{type(error).__name__}: {error}"
            else:
                if status not in _AGAIN:
                    return _answered(status, answer)
                why = _detail(answer)
            if time.monotonic() + pause > until:
                raise CorewiseError(f"no answer from {self._parts.geturl()}: {why}")
            time.sleep(pause)
            pause = min(2.0 * pause, _LATER)

    def _once(self, method: str, path: str, content: bytes | None, longer: float) -> tuple[int, bytes]:
        connection = getattr(self._mine, "connection", None)
        if connection is None:
            connection = self._mine.connection = self._connection()
        connection.timeout = self._timeout + longer
        if connection.sock is not None:
            connection.sock.settimeout(self._timeout + longer)
        headers = {**self._headers, "Content-Type": "application/json"}
        connection.request(method, self._parts.path.rstrip("/") + path, content, headers)
        response = connection.getresponse()
        return response.status, response.read()

    def _connection(self) -> HTTPConnection:
        kind = _Secret if self._parts.scheme == "https" else _Plain
        return kind(str(self._parts.hostname), self._parts.port, timeout=self._timeout)

    def _drop(self) -> None:
        connection = getattr(self._mine, "connection", None)
        if connection is not None:
            connection.close()
            self._mine.connection = None

    def close(self) -> None:
        """Let the connection of this thread go."""
        self._drop()


def _answered(status: int, answer: bytes) -> dict[str, Any]:
    if status != _OK:
        raise InvalidInput(f"refused with status {status}: {_detail(answer)}")
    values = json.loads(answer)
    if not isinstance(values, dict):
        raise CorewiseError(f"no answer of a service: {checks.shown(values)}")
    return values


def _require_fine(status: int, response: HTTPResponse) -> None:
    if status != _OK:
        _answered(status, response.read())


def _detail(answer: bytes) -> str:
    """Return what a problem says."""
    try:
        problem = json.loads(answer)
    except ValueError:
        return checks.shown(answer)
    return str(problem.get("detail")) if isinstance(problem, Mapping) else checks.shown(problem)
