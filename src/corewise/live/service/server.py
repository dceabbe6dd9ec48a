"""The server: a socket, a loop, signals and a log. It stops gracefully, and the next goes on from there."""

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
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from corewise.errors import InvalidInput
from corewise.learning.algorithms import Algorithm
from corewise.live.service.app import make_app
from corewise.live.service.desk import Desk, open_desk
from corewise.live.service.guard import Access
from corewise.live.service.pool_file import Limits, PoolFile
from corewise.live.service.problems import Problem
from corewise.live.service.token import Token
from corewise.live.solving import solving

__all__ = ["Opened", "listening", "opened", "serve"]

_GRACE = 5  # seconds that answers under way are given when the service stops
_SLOWEST = 10.0  # seconds that the head of a request may take
_LONGEST_HEAD = 16_384  # bytes
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
    """Serve a pool until a signal ends it.

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
        Is told the address once requests are answered.
    """
    opening = opened(pool, journal, token_file, host=host, port=port, watch=watch, around=_logging)
    with opening as service, _quiet_signals():
        mode = service.desk.ask(lambda seen: seen.mode)
        _log.info("started", extra={"facts": {"address": service.address, "mode": mode}})
        ready(service.address, service.desk)
        service.run()


@dataclass(frozen=True)
class Opened:
    """Service that is open, and answers as long as it is run.

    Attributes
    ----------
    address : str
        Where it is, as a browser wants it.
    desk : Desk
        Its desk.
    server : uvicorn.Server
        What answers.
    """

    address: str
    desk: Desk
    server: uvicorn.Server
    _socket: socket.socket

    def run(self) -> None:
        """Answer until a signal ends it, or `stop`."""
        asyncio.run(self.server.serve(sockets=[self._socket]))

    def stop(self) -> None:
        """Have it end soon; from any thread."""
        self.server.should_exit = True


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
            access = _access(token, socket_.getsockname()[0], host, pool.limits)
            server = _Server(_config(make_app(desk, access, pool.limits), pool.limits), desk)
            yield Opened(_address_of(socket_), desk, server, socket_)


def _address_of(socket_: socket.socket) -> str:
    host, port = socket_.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


@contextmanager
def listening(host: str, port: int) -> Iterator[socket.socket]:
    """Give a socket that listens."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        made = socket.create_server(address[:2], family=family, backlog=512)
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
    named = [name.lower() for name in limits.hosts]
    hosts = (*_LOOPBACK, host.lower(), *named) if local or named else ()
    return Access(token, loopback=local and not named, hosts=tuple(hosts))


class _Server(uvicorn.Server):
    """Server that ends streams before it waits for answers under way."""

    def __init__(self, config: uvicorn.Config, desk: Desk) -> None:
        super().__init__(config)
        self._desk = desk

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin."""
        self._desk.bell.listen()
        await super().startup(sockets)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End."""
        self._desk.bell.end()
        await super().shutdown(sockets)


def _config(app: Any, limits: Limits) -> uvicorn.Config:
    class Protocol(_Impatient):
        most = limits.most_connections

    return uvicorn.Config(
        app,
        http=Protocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=_GRACE,
        h11_max_incomplete_event_size=_LONGEST_HEAD,
    )


class _Impatient(H11Protocol):
    """Connection that must send the head of its first request soon, and of which there are not too many."""

    most = 200

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection."""
        super().connection_made(transport)
        if len(self.connections) > self.most:
            transport.write(_REFUSAL)
            transport.close()
            return
        self._last: object = None
        self._impatience = self.loop.call_later(_SLOWEST, self._lose_patience)

    def connection_lost(self, exc: Exception | None) -> None:
        """Let a connection go."""
        if hasattr(self, "_impatience"):
            self._impatience.cancel()
        super().connection_lost(exc)

    def _lose_patience(self) -> None:
        """Close if no request has come since the last look, and none is being answered."""
        idle = self.cycle is None or self.cycle.response_complete
        if idle and self.cycle is self._last:
            self.transport.close()
            return
        self._last = self.cycle
        self._impatience = self.loop.call_later(_SLOWEST, self._lose_patience)


@contextmanager
def _quiet_signals() -> Iterator[None]:
    """Let SIGTERM end the loop and nothing else: what is to be closed is closed behind it."""
    before = signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


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
