"""The server: a socket, an event loop, signals, a log, and the reload of token and limits.

It stops gracefully, and the next one continues. Connections whose last request has shown the token are kept.
Where there are too many, others are closed: first those that are idle, the oldest first. What a new
connection has sent at once is read before it may be closed, as it may show the token.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from threading import Event
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from corewise.errors import CorewiseError, InvalidInput
from corewise.learning.algorithms import Algorithm
from corewise.live.run.solver import solver_process
from corewise.live.service.access import CONNECTION, Access, AccessMiddleware, Token, name_of
from corewise.live.service.app import make_app
from corewise.live.service.pool_file import Limits, PoolFile, load_pool
from corewise.live.service.runtime import ServiceRuntime, open_runtime
from corewise.live.service.wire import Problem
from corewise.model.system import System
from corewise.observation import events as happened

__all__ = ["OpenService", "Reload", "listening", "open_service", "serve"]

_GRACE = 5  # seconds that answers under way are given when the service stops
_SLOWEST = 10.0  # seconds that the head of a request may take
_LONGEST_HEAD = 16_384  # bytes
_QUEUED = 512  # connections that wait to be accepted
_AT_ONCE = 64  # of them that are accepted in one turn of the loop
_TURNS = 4  # of the loop, from a connection to the request that it sent at once
_RELOADING: int | None = getattr(signal, "SIGHUP", None)
_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
_FULL = Problem(503, "too many connections").content()
_REFUSAL = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\nconnection: close\r\n"
    b"content-length: %d\r\n\r\n%b" % (len(_FULL), _FULL)
)

_log = logging.getLogger("corewise.service")


def serve(
    pool: PoolFile,
    journal: Path,
    token_file: Path,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    watch: bool = False,
    ready: Callable[[str, ServiceRuntime], None] = lambda _address, _runtime: None,
) -> None:
    """Serve a pool until SIGTERM or SIGINT ends it; SIGHUP reloads the token and the limits.

    Parameters
    ----------
    pool : PoolFile
        What is known of the pool, and what the service puts up with.
    journal : path
        Where events are kept; one that is there is continued.
    token_file : path
        Where the token is; it is made if there is none.
    host, port : str and int, optional
        Where to listen; port 0 takes a free one.
    watch : bool, optional
        Whether to watch only.
    ready : callable, optional
        Called with the address and the runtime once requests are answered.

    Raises
    ------
    CorewiseError
        If it cannot go on: an error in the code, or a journal that was removed.
    """
    early = Event()
    with (
        _on_signal(_RELOADING, early.set),  # it would end a service that starts
        open_service(
            pool, journal, token_file, host=host, port=port, watch=watch, around=_logging
        ) as service,
        _on_signal(signal.SIGTERM, service.stop),
    ):
        with _on_signal(_RELOADING, service.reload):
            if early.is_set():
                service.reload()
            mode = service.runtime.runner.ask(lambda seen: seen.mode)
            _log.info("started", extra={"facts": {"address": service.address, "mode": mode}})
            ready(service.address, service.runtime)
            service.run()
        if service.runtime.runner.failed:
            raise CorewiseError(f"{service.runtime.error}")


@dataclass(frozen=True)
class OpenService:
    """Service that is open, and answers as long as it is run.

    Attributes
    ----------
    address : str
        Where it is, as a browser wants it.
    runtime : ServiceRuntime
        The service without HTTP.
    server : Server
        The HTTP server.
    """

    address: str
    runtime: ServiceRuntime
    server: _Server
    _socket: socket.socket

    def run(self) -> None:
        """Answer requests until a signal, `stop` or a failure of the runner ends it."""
        asyncio.run(self.server.serve(sockets=[self._socket]))

    def stop(self) -> None:
        """Have it end soon; from any thread."""
        self.server.should_exit = True

    def reload(self) -> None:
        """Have it read the token and the pool file again soon; from any thread."""
        self.server.should_reload = True


@contextmanager
def open_service(
    pool: PoolFile,
    journal: Path,
    token_file: Path,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    watch: bool = False,
    solver: Callable[[Algorithm], Any] = solver_process,
    around: Callable[[Token], AbstractContextManager[None]] = lambda _token: nullcontext(),
) -> Iterator[OpenService]:
    """Give a service that is open; see `serve`.

    Parameters
    ----------
    pool, journal, token_file, host, port, watch
        As in `serve`.
    solver : callable, optional
        Gives the process to solve in, given the algorithm.
    around : callable, optional
        A context that lasts as long as the service is open, given the token.
    """
    with listening(host, port) as socket_:
        token = Token.of_file(token_file)
        with around(token), open_runtime(pool, journal, watch=watch, solver=solver) as runtime:
            access = partial(_access, token, socket_.getsockname()[0], host)
            middleware = make_app(runtime, access(pool.limits), pool.limits)
            reload = Reload(runtime, middleware, token, token_file, access, pool)
            server = _Server(_config(middleware), runtime, reload)
            yield OpenService(_address_of(socket_), runtime, server, socket_)


def _address_of(socket_: socket.socket) -> str:
    host, port = socket_.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


@contextmanager
def listening(host: str, port: int) -> Iterator[socket.socket]:
    """Give a socket that listens."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        made = socket.create_server(address[:2], family=family, backlog=_QUEUED)
        # Connections have it from here: asyncio sets it only on sockets made with IPPROTO_TCP, and without it
        # the end of an answer waits for the acknowledgement of its beginning, which takes 40 ms.
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except OSError as error:
        why = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
        raise InvalidInput(f"cannot listen at {host} port {port}: {why}") from None
    with made:
        yield made


def _access(token: Token, address: str, host: str, limits: Limits) -> Access:
    """Return who may ask: of a service that only this machine reaches, by the names of this machine."""
    local = ip_address(address).is_loopback
    named = tuple(name.lower() for name in limits.hosts)
    hosts = (*_LOOPBACK, host.lower(), *map(name_of, named)) if local or named else ()
    return Access(token, loopback=local and not named, hosts=hosts, named=named)


class Reload:
    """Reload of the token and the limits of a service.

    A file that cannot be used is logged, and what was read before stays. Limits of a class are changed as by
    ``PUT /v1/limits``, if those in the file have changed; otherwise what was set by a request stays.

    Parameters
    ----------
    runtime, middleware : ServiceRuntime and AccessMiddleware
        The service.
    token, token_file : Token and path
        Its token, and the file of that.
    access : callable
        From limits to the access to the service.
    pool : PoolFile
        The pool file as it was read last.
    """

    def __init__(
        self,
        runtime: ServiceRuntime,
        middleware: AccessMiddleware,
        token: Token,
        token_file: Path,
        access: Callable[[Limits], Access],
        pool: PoolFile,
    ) -> None:
        self._runtime, self._middleware = runtime, middleware
        self._token, self._token_file = token, token_file
        self._access, self._pool = access, pool

    def __call__(self) -> None:
        """Reload; from any thread but the runner's."""
        try:
            changed = self._token.renew(self._token_file)
        except CorewiseError as error:
            _log.error("the token stays as it was: %s", error)
        else:
            _log.info("reloaded the token: %s", "it has changed" if changed else "it is the same")
        try:
            pool = load_pool(self._pool.path)
        except CorewiseError as error:
            _log.error("limits stay as they were: %s", error)
            return
        self._middleware.change(self._access(pool.limits), pool.limits)
        self._set_limits(pool.system)
        _log.info("reloaded the limits")
        if _but_for_limits(pool) != _but_for_limits(self._pool):
            _log.warning("what else has changed in the pool file is for the next start")
        self._pool = replace(self._pool, system=pool.system, limits=pool.limits)

    def _set_limits(self, system: System) -> None:
        before = {known.name: (known.min_cores, known.max_cores) for known in self._pool.system.classes}
        for known in system.classes:
            limits = (known.min_cores, known.max_cores)
            if before.get(known.name, limits) == limits:
                continue
            try:
                self._runtime.runner.request(happened.LimitsChanged, known.name, *limits)
            except CorewiseError as error:
                _log.error("limits of class %r stay as they were: %s", known.name, error)


def _but_for_limits(pool: PoolFile) -> PoolFile:
    classes = [replace(known, min_cores=1, max_cores=None) for known in pool.system.classes]
    return replace(pool, system=replace(pool.system, classes=tuple(classes)), limits=Limits())


class _Server(uvicorn.Server):
    """Server that ends streams before it waits for responses under way, and ends if the runner has failed."""

    def __init__(self, config: uvicorn.Config, runtime: ServiceRuntime, reload: Reload) -> None:
        super().__init__(config)
        self._runtime, self._reload = runtime, reload
        self.should_reload = False

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin."""
        self._runtime.notifier.attach()
        await super().startup(sockets)
        for one in sockets or []:
            one.listen(_QUEUED)  # asyncio has made the queue as long as what it takes in at once

    async def on_tick(self, counter: int) -> bool:
        """Look, ten times a second, for a signal or a failure of the runner."""
        if self.should_reload:
            self.should_reload = False
            await asyncio.get_running_loop().run_in_executor(None, self._reload)
        if self._runtime.runner.failed:
            self.should_exit = True
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End."""
        self._runtime.notifier.end()
        await super().shutdown(sockets)


def _config(middleware: AccessMiddleware) -> uvicorn.Config:
    return uvicorn.Config(
        middleware,
        http=partial(_Connection, middleware),  # type: ignore[arg-type]
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=_GRACE,
        h11_max_incomplete_event_size=_LONGEST_HEAD,
        backlog=_AT_ONCE,
    )


class _Connection(H11Protocol):
    """Connection that must send the head of its first request soon, and of which there are not too many."""

    def __init__(self, middleware: AccessMiddleware, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.trusted = self._heard = False
        self._middleware = middleware
        self._last: object = None
        self._head_timeout: asyncio.TimerHandle | None = None
        app = self.app

        async def known_by(scope: Any, receive: Any, send: Any) -> None:
            scope[CONNECTION] = self
            await app(scope, receive, send)

        self.app = known_by

    @property
    def idle(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection."""
        super().connection_made(transport)
        self._since = self.loop.time()
        trusted = sum(one.trusted for one in self._all())
        if trusted >= self._middleware.limits.most_connections:
            transport.write(_REFUSAL)
            transport.close()
            return
        self._head_timeout = self.loop.call_later(_SLOWEST, self._close_if_idle)
        self._hear(_TURNS)

    def connection_lost(self, exc: Exception | None) -> None:
        """Let a connection go."""
        if self._head_timeout is not None:
            self._head_timeout.cancel()
        super().connection_lost(exc)

    def _all(self) -> list[_Connection]:
        """Return the connections there are, but for those that are being closed."""
        there = (one for one in self.connections if isinstance(one, _Connection))
        return [one for one in there if not one.transport.is_closing()]

    def _hear(self, turns: int) -> None:
        """Wait for what was sent at once, and then count: the place of another may be needed, or this one."""
        if turns:
            self.loop.call_soon(self._hear, turns - 1)
            return
        self._heard = True
        most = self._middleware.limits.most_connections
        if len(self.connections) <= most:
            return
        heard = [one for one in self._all() if one._heard]
        others = [one for one in heard if not one.trusted]
        if len(heard) > most and others:
            min(others, key=lambda one: (not one.idle, one._since)).transport.abort()

    def _close_if_idle(self) -> None:
        """Close if no request has come since the last look, and none is being answered."""
        if self.idle and self.cycle is self._last:
            self.transport.close()
            return
        self._last = self.cycle
        self._head_timeout = self.loop.call_later(_SLOWEST, self._close_if_idle)


@contextmanager
def _on_signal(number: int | None, act: Callable[[], object]) -> Iterator[None]:
    """Have a signal do this and nothing else; there are systems without some signals."""
    if number is None:
        yield
        return
    before = signal.signal(number, lambda *_: act())
    try:
        yield
    finally:
        signal.signal(number, before)


# --- log --------------------------------------------------------------------------------------------


class _Lines(logging.Formatter):
    """A JSON object a line, without the token whatever is logged."""

    def __init__(self, token: Token) -> None:
        super().__init__()
        self._token = token

    def format(self, record: logging.LogRecord) -> str:
        """Return a line."""
        facts: dict[str, Any] = {
            "time": round(record.created, 3),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "facts", {}),
        }
        if record.exc_info:
            facts["trace"] = self.formatException(record.exc_info)
        return self._token.hidden_in(json.dumps(facts, ensure_ascii=False, default=str))


@contextmanager
def _logging(token: Token) -> Iterator[None]:
    """Log to stderr as long as the service runs."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Lines(token))
    named = {"corewise": logging.INFO, "uvicorn": logging.WARNING}
    before = {name: logging.getLogger(name).level for name in named}
    for name, level in named.items():
        logging.getLogger(name).addHandler(handler)
        logging.getLogger(name).setLevel(level)
    try:
        yield
        _log.info("stopped")
    finally:
        for name, level in before.items():
            logging.getLogger(name).removeHandler(handler)
            logging.getLogger(name).setLevel(level)
