"""The server: a socket, a loop, signals and a log. It stops gracefully, and the next goes on from there.

Connections whose last request has shown the token keep their places. Where there are too many, others make
room: first those that ask for nothing, the oldest first. One that has just come is heard before it may have
to: what it has sent by then is read, and may show the token.
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
from dataclasses import dataclass
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from threading import Event
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from corewise.errors import CorewiseError, InvalidInput
from corewise.learning.algorithms import Algorithm
from corewise.live.run.solver import solving
from corewise.live.service.app import make_app
from corewise.live.service.desk import Desk, open_desk
from corewise.live.service.guard import CONNECTION, Access, Guard, name_of
from corewise.live.service.pool_file import Limits, PoolFile
from corewise.live.service.problems import Problem
from corewise.live.service.reload import Reload
from corewise.live.service.token import Token

__all__ = ["Opened", "listening", "opened", "serve"]

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
    ready: Callable[[str, Desk], None] = lambda _address, _desk: None,
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
        Called with the address and the desk once requests are answered.

    Raises
    ------
    CorewiseError
        If it cannot go on: an error in the code, or a journal that was removed.
    """
    early = Event()
    with (
        _on_signal(_RELOADING, early.set),  # it would end a service that starts
        opened(pool, journal, token_file, host=host, port=port, watch=watch, around=_logging) as service,
        _on_signal(signal.SIGTERM, service.stop),
    ):
        with _on_signal(_RELOADING, service.reload):
            if early.is_set():
                service.reload()
            mode = service.desk.ask(lambda seen: seen.mode)
            _log.info("started", extra={"facts": {"address": service.address, "mode": mode}})
            ready(service.address, service.desk)
            service.run()
        if service.desk.failed:
            raise CorewiseError(f"{service.desk.broken}")


@dataclass(frozen=True)
class Opened:
    """Service that is open, and answers as long as it is run.

    Attributes
    ----------
    address : str
        Where it is, as a browser wants it.
    desk : Desk
        Its desk.
    server : Server
        What answers.
    """

    address: str
    desk: Desk
    server: _Server
    _socket: socket.socket

    def run(self) -> None:
        """Answer until a signal ends it, `stop`, or a desk that cannot go on."""
        asyncio.run(self.server.serve(sockets=[self._socket]))

    def stop(self) -> None:
        """Have it end soon; from any thread."""
        self.server.should_exit = True

    def reload(self) -> None:
        """Have it read the token and the pool file again soon; from any thread."""
        self.server.should_reload = True


@contextmanager
def opened(
    pool: PoolFile,
    journal: Path,
    token_file: Path,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    watch: bool = False,
    solver: Callable[[Algorithm], Any] = solving,
    around: Callable[[Token], AbstractContextManager[None]] = lambda _token: nullcontext(),
) -> Iterator[Opened]:
    """Give a service that is open; see `serve`.

    Parameters
    ----------
    pool, journal, token_file, host, port, watch
        As in `serve`.
    solver : callable, optional
        Gives the process to solve in, given the algorithm.
    around : callable, optional
        What lasts as long as the desk is open, given the token.
    """
    with listening(host, port) as socket_:
        token = Token.of_file(token_file)
        with around(token), open_desk(pool, journal, watch=watch, solver=solver) as desk:
            access = partial(_access, token, socket_.getsockname()[0], host)
            guard = make_app(desk, access(pool.limits), pool.limits)
            reload = Reload(desk, guard, token, token_file, access, pool)
            server = _Server(_config(guard), desk, reload)
            yield Opened(_address_of(socket_), desk, server, socket_)


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


class _Server(uvicorn.Server):
    """Server that ends streams before it waits for answers under way, and ends if its desk cannot go on."""

    def __init__(self, config: uvicorn.Config, desk: Desk, reload: Reload) -> None:
        super().__init__(config)
        self._desk, self._reload = desk, reload
        self.should_reload = False

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin."""
        self._desk.bell.listen()
        await super().startup(sockets)
        for one in sockets or []:
            one.listen(_QUEUED)  # asyncio has made the queue as long as what it takes in at once

    async def on_tick(self, counter: int) -> bool:
        """Look, ten times a second, for what signals and the desk want."""
        if self.should_reload:
            self.should_reload = False
            await asyncio.get_running_loop().run_in_executor(None, self._reload)
        if self._desk.failed:
            self.should_exit = True
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End."""
        self._desk.bell.end()
        await super().shutdown(sockets)


def _config(guard: Guard) -> uvicorn.Config:
    return uvicorn.Config(
        guard,
        http=partial(_Connection, guard),  # type: ignore[arg-type]
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

    def __init__(self, guard: Guard, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.trusted = self._heard = False
        self._guard = guard
        self._last: object = None
        self._impatience: asyncio.TimerHandle | None = None
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
        if trusted >= self._guard.limits.most_connections:
            transport.write(_REFUSAL)
            transport.close()
            return
        self._impatience = self.loop.call_later(_SLOWEST, self._lose_patience)
        self._hear(_TURNS)

    def connection_lost(self, exc: Exception | None) -> None:
        """Let a connection go."""
        if self._impatience is not None:
            self._impatience.cancel()
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
        most = self._guard.limits.most_connections
        if len(self.connections) <= most:
            return
        heard = [one for one in self._all() if one._heard]
        others = [one for one in heard if not one.trusted]
        if len(heard) > most and others:
            min(others, key=lambda one: (not one.idle, one._since)).transport.abort()

    def _lose_patience(self) -> None:
        """Close if no request has come since the last look, and none is being answered."""
        if self.idle and self.cycle is self._last:
            self.transport.close()
            return
        self._last = self.cycle
        self._impatience = self.loop.call_later(_SLOWEST, self._lose_patience)


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
