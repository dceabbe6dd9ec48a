"""Access to the service: the token, and the middleware that every request passes first.

- A host name that is not one of the service is refused: a page elsewhere that points a name of its own at
  this machine reads nothing (DNS rebinding).
- So is a request that a browser makes for a page of another origin, whether it reads or writes.
- Writing needs the token; so does reading, unless only this machine can reach the service.
- A body has a largest size and a longest time, a client address a largest rate. Requests without the token
  have a rate and a number of their own, so that they never take the place of a scheduler.

The token is a secret in a file that only its owner can read.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import stat
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hmac import compare_digest
from pathlib import Path
from typing import Any, Protocol

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from corewise.errors import InvalidFile
from corewise.kit.checks import shown
from corewise.kit.files import reason_of
from corewise.live.service.pool_file import Limits
from corewise.live.service.wire import Problem

__all__ = ["CONNECTION", "SECURITY_HEADERS", "Access", "AccessMiddleware", "Connection", "Token", "name_of"]

CONNECTION = "corewise.connection"
"""The key of a connection in the scope of its requests."""

SECURITY_HEADERS = {
    "content-security-policy": "default-src 'self'; frame-ancestors 'none'; base-uri 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}

_READING = ("GET", "HEAD", "OPTIONS")
_OPEN = ("/", "/healthz", "/readyz", "/favicon.ico", "/openapi.json")
_HEALTH = ("/healthz", "/readyz")  # answered at once, and also where there are too many readers
_OWN_SITE = (
    b"same-origin",
    b"none",
)  # what a browser says of requests of the page, and of addresses typed in
_SLOWEST = 10.0  # seconds that a body may take
_ADDRESSES = 10_000  # whose rate is kept
_SHORTEST, _LONGEST = 16, 1000  # characters of a token


# --- the token --------------------------------------------------------------------------------------


class Token:
    """Token: a secret, compared in a time that does not depend on where others differ.

    Parameters
    ----------
    text : str
        The secret.
    """

    def __init__(self, text: str) -> None:
        self._secret = text.encode()
        self._former: tuple[bytes, ...] = ()

    def __repr__(self) -> str:
        """Return a text without the secret."""
        return "Token(…)"

    def admits(self, authorization: bytes | None) -> bool:
        """Return whether a header ``Authorization: Bearer …`` shows it."""
        scheme, _, shown = (authorization or b"").partition(b" ")
        return scheme.lower() == b"bearer" and compare_digest(shown.strip(), self._secret)

    def hidden_in(self, text: str) -> str:
        """Return a text without the secret, or one that it had before."""
        for secret in (self._secret, *self._former):
            text = text.replace(secret.decode(), "…")
        return text

    def renew(self, path: Path) -> bool:
        """Read the secret from a file again; return whether it has changed.

        A missing file is created with a new secret; `InvalidFile` as in `of_file`, and then the secret stays.
        """
        found = self.of_file(path)._secret
        if found == self._secret:
            return False
        self._former = (*self._former, self._secret)
        self._secret = found
        return True

    @classmethod
    def of_file(cls, path: Path) -> Token:
        """Return the token in a file, which is created if it is missing.

        Raises
        ------
        InvalidFile
            If others can read the file, or it holds no token.
        """
        try:
            _make(path)
            handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            with os.fdopen(handle, encoding="ascii") as file:
                _require_private(path, os.fstat(handle))
                text = file.read(_LONGEST + 2).removesuffix("\n")
        except (OSError, UnicodeDecodeError) as error:
            why = reason_of(error) if isinstance(error, OSError) else "it is not ASCII"
            raise InvalidFile(f"{path}: no token can be read: {why}") from None
        if not _SHORTEST <= len(text) <= _LONGEST or not text.isprintable() or " " in text:
            raise InvalidFile(f"{path}: a token is one word of {_SHORTEST} to {_LONGEST} characters")
        return cls(text)


def _make(path: Path) -> None:
    """Write a new token atomically, unless there is one."""
    if path.exists():
        return
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(secrets.token_urlsafe(32) + "\n")
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):  # another process was first: its token counts
            os.link(beside, path)
    finally:
        beside.unlink()


def _require_private(path: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise InvalidFile(f"{path}: a token is in a file of its own")
    if found.st_uid != os.geteuid():
        raise InvalidFile(f"{path}: belongs to another user, who knows the token")
    if found.st_mode & 0o077:
        mode = stat.S_IMODE(found.st_mode)
        raise InvalidFile(f"{path}: others can read or change the token (mode {mode:o}); chmod 600 it")


# --- the middleware ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Access:
    """Access to the service.

    Attributes
    ----------
    token : Token
        The secret that a client must show to write.
    loopback : bool
        Whether only this machine can reach the service: then reading needs no token.
    hosts : tuple of str
        The host names and addresses of the service; if empty, any.
    named : tuple of str
        Host names of a proxy, with a port if it is not that of the scheme: pages from there are the service's
        own.
    """

    token: Token
    loopback: bool
    hosts: tuple[str, ...]
    named: tuple[str, ...] = ()

    def needs_token(self, method: str, path: str) -> bool:
        """Return whether a request must show the token."""
        if method not in _READING:
            return True
        return not (self.loopback or path in _OPEN or path.startswith("/static/"))

    def is_called(self, host: str) -> bool:
        """Return whether a host name is one of the service."""
        return not self.hosts or name_of(host) in self.hosts

    def is_own(self, origin: str, host: str) -> bool:
        """Return whether an origin is that of the service's own page, in a request for a host."""
        scheme, _, place = origin.lower().partition("://")
        usual = {"http": ":80", "https": ":443"}.get(scheme)
        if usual is None or not place:
            return False
        return place.removesuffix(usual) in (host.lower().removesuffix(usual), *self.named)


def name_of(host: str) -> str:
    """Return a host without its port."""
    return (host.rsplit(":", 1)[0] if not host.endswith("]") else host).lower()


class Connection(Protocol):
    """Connection that a request came by."""

    trusted: bool
    """Whether its last request has shown the token."""


class _Rate:
    """Rate limit of each client: a bucket that fills at a rate per second, and holds twice as many."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._buckets: OrderedDict[tuple[str, bool], tuple[float, float]] = OrderedDict()

    def allows(self, client: tuple[str, bool]) -> bool:
        """Take from a bucket, if there is enough in it."""
        now = time.monotonic()
        left, since = self._buckets.pop(client, (2.0 * self._rate, now))
        left = min(left + (now - since) * self._rate, 2.0 * self._rate)
        allowed = left >= 1.0
        self._buckets[client] = (left - allowed, now)
        if len(self._buckets) > _ADDRESSES:
            self._buckets.popitem(last=False)
        return allowed


class AccessMiddleware:
    """Middleware that lets requests through to an application, or refuses them.

    Parameters
    ----------
    app : ASGI application
        The application.
    access : Access
        The token and the host names of the service.
    limits : Limits
        Limits of requests.
    """

    def __init__(self, app: ASGIApp, access: Access, limits: Limits) -> None:
        self._app = app
        self._readers = 0
        self.responses: dict[int, int] = {}
        """The number of responses by status."""
        self.change(access, limits)

    def change(self, access: Access, limits: Limits) -> None:
        """Set the access and the limits of requests from now on."""
        self._access, self.limits = access, limits
        self._requests = _Rate(limits.most_requests)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or answer with a problem."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = False

        async def answer(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                status = message["status"]
                self.responses[status] = self.responses.get(status, 0) + 1
                message["headers"] = _with_security(message["headers"])
            await send(message)

        headers = dict(reversed(scope["headers"]))  # of several the first
        trusted = self._access.token.admits(headers.get(b"authorization"))
        connection: Connection | None = scope.get(CONNECTION)
        if connection is not None:
            connection.trusted = trusted
        try:
            scope = self._below_root(scope)
            self._admit(scope, headers, trusted)
            with self._reading(scope, trusted):
                await self._app(scope, self._limited(scope, receive), answer)
        except Problem as problem:
            if not begun:
                await _refuse(problem, answer)

    def _below_root(self, scope: Scope) -> Scope:
        """Return a request as it would be without a path prefix."""
        root = self.limits.root_path
        if not root or not f"{scope['path']}/".startswith(f"{root}/"):
            return scope
        path = scope["path"][len(root) :]
        if not path:  # the page finds its files beside itself
            raise Problem(308, f"the page is at {root}/", headers={"location": f"{root}/"})
        return {**scope, "path": path, "raw_path": path.encode()}

    def _admit(self, scope: Scope, headers: Mapping[bytes, bytes], trusted: bool) -> None:
        address = scope["client"][0] if scope["client"] else ""
        if not self._requests.allows((address, trusted)):
            raise Problem(429, "too many requests from this address", headers={"retry-after": "1"})
        host = headers.get(b"host", b"").decode("latin-1")
        if not self._access.is_called(host):
            raise Problem(421, f"{shown(host)} is no host name of this service")
        self._require_own_origin(scope, headers, host)
        if not trusted and self._access.needs_token(scope["method"], scope["path"]):
            raise _without_token(headers.get(b"authorization"))
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length[:20]) > self.limits.largest_body:
            raise self._too_large()

    def _require_own_origin(self, scope: Scope, headers: Mapping[bytes, bytes], host: str) -> None:
        """Refuse what a browser asks for on behalf of another page, but for links to this one."""
        origin, site = headers.get(b"origin"), headers.get(b"sec-fetch-site")
        if origin is not None and not self._access.is_own(origin.decode("latin-1"), host):
            raise Problem(403, f"a page of {shown(origin.decode('latin-1'))} may not use this service")
        if site is None or site in _OWN_SITE:
            return
        purpose = headers.get(b"sec-fetch-mode"), headers.get(b"sec-fetch-dest")
        if (scope["method"], scope["path"], *purpose) != ("GET", "/", b"navigate", b"document"):
            raise Problem(
                403, f"a page of another origin ({shown(site.decode('latin-1'))}) may not use this service"
            )

    @contextmanager
    def _reading(self, scope: Scope, trusted: bool) -> Iterator[None]:
        """Count a request without the token as long as it is being answered, and refuse one too many."""
        if trusted or scope["path"] in _HEALTH:
            yield
            return
        if self._readers >= self.limits.most_readers:
            raise Problem(
                503,
                f"too many readers: {self._readers} requests without the token are being answered",
                headers={**_CLOSE, "retry-after": "1"},
            )
        self._readers += 1
        try:
            yield
        finally:
            self._readers -= 1

    def _limited(self, scope: Scope, receive: Receive) -> Receive:
        """Return how to receive a body that is neither too large nor too slow."""
        taken = 0
        deadline = time.monotonic() + _SLOWEST
        more = scope["method"] not in _READING

        async def limited() -> Message:
            nonlocal taken, more
            if not more:
                return await receive()
            try:
                async with asyncio.timeout(max(deadline - time.monotonic(), 0.0)):
                    message = await receive()
            except TimeoutError:
                raise Problem(408, f"the body took longer than {_SLOWEST:g} s", headers=_CLOSE) from None
            taken += len(message.get("body", b""))
            more = message.get("more_body", False)
            if taken > self.limits.largest_body:
                raise self._too_large()
            return message

        return limited

    def _too_large(self) -> Problem:
        return Problem(413, f"a body has at most {self.limits.largest_body} bytes", headers=_CLOSE)


_CLOSE = {"connection": "close"}


def _without_token(shown_token: bytes | None) -> Problem:
    why = "no token was shown" if shown_token is None else "the token is wrong"
    return Problem(
        401, f"{why}: send it as 'Authorization: Bearer …'", headers={"www-authenticate": "Bearer"}
    )


_ADDED = [(name.encode(), value.encode()) for name, value in SECURITY_HEADERS.items()]


def _with_security(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    there = list(headers)
    names = {name.lower() for name, _ in there}
    return [*there, *(pair for pair in _ADDED if pair[0] not in names)]


async def _refuse(problem: Problem, send: Send) -> None:
    content = problem.content()
    headers: list[Any] = [
        (b"content-type", b"application/problem+json"),
        (b"content-length", str(len(content)).encode()),
        *((name.encode(), value.encode()) for name, value in problem.headers.items()),
    ]
    await send({"type": "http.response.start", "status": problem.status, "headers": headers})
    await send({"type": "http.response.body", "body": content})
