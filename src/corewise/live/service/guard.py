"""The guard: who may ask, how much and how often. Whatever comes in passes here first.

- A name by which nobody calls this service is refused: a page elsewhere that points a name of its own at this
  machine reads nothing.
- Writing needs the token; so does reading, unless only this machine can reach the service.
- A body has a largest size and a longest time, an address a rate.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from corewise.kit.checks import shown
from corewise.live.service.pool_file import Limits
from corewise.live.service.problems import Problem
from corewise.live.service.token import Token

__all__ = ["SECURITY_HEADERS", "Access", "Guard"]

SECURITY_HEADERS = {
    "content-security-policy": "default-src 'self'; frame-ancestors 'none'; base-uri 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}

_READING = ("GET", "HEAD", "OPTIONS")
_OPEN = ("/", "/healthz", "/readyz", "/favicon.ico", "/openapi.json")
_SLOWEST = 10.0  # seconds that a body may take
_ADDRESSES = 10_000  # whose rate is kept


@dataclass(frozen=True)
class Access:
    """Access to the service.

    Attributes
    ----------
    token : Token
        What whoever writes must show.
    loopback : bool
        Whether only this machine can reach it: then reading needs no token.
    hosts : tuple of str
        The names and addresses by which it may be called; none of them: by any.
    """

    token: Token
    loopback: bool
    hosts: tuple[str, ...]

    def needs_token(self, method: str, path: str) -> bool:
        """Return whether a request must show the token."""
        if method not in _READING:
            return True
        return not (self.loopback or path in _OPEN or path.startswith("/static/"))

    def is_called(self, host: str) -> bool:
        """Return whether this is a name of the service."""
        name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
        return not self.hosts or name.lower() in self.hosts


class _Rate:
    """Rate of each address: a bucket that fills at so many a second, and holds twice as many."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def allows(self, address: str) -> bool:
        """Take from a bucket, if there is enough in it."""
        now = time.monotonic()
        left, since = self._buckets.pop(address, (2.0 * self._rate, now))
        left = min(left + (now - since) * self._rate, 2.0 * self._rate)
        allowed = left >= 1.0
        self._buckets[address] = (left - allowed, now)
        if len(self._buckets) > _ADDRESSES:
            self._buckets.popitem(last=False)
        return allowed


class Guard:
    """Guard in front of an application.

    Parameters
    ----------
    app : ASGI application
        What it guards.
    access : Access
        Who may ask.
    limits : Limits
        How much and how often.
    """

    def __init__(self, app: ASGIApp, access: Access, limits: Limits) -> None:
        self._app, self._access, self._limits = app, access, limits
        self._requests = _Rate(limits.most_requests)
        self.answers: dict[int, int] = {}
        """How many requests were answered with each status."""

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
                self.answers[status] = self.answers.get(status, 0) + 1
                message["headers"] = _with_security(message["headers"])
            await send(message)

        try:
            self._admit(scope)
            await self._app(scope, self._limited(scope, receive), answer)
        except Problem as problem:
            if not begun:
                await _refuse(problem, answer)

    def _admit(self, scope: Scope) -> None:
        headers = dict(reversed(scope["headers"]))  # of several the first
        address = scope["client"][0] if scope["client"] else ""
        if not self._requests.allows(address):
            raise Problem(429, "too many requests from this address", headers={"retry-after": "1"})
        host = headers.get(b"host", b"").decode("latin-1")
        if not self._access.is_called(host):
            raise Problem(421, f"nobody calls this service {shown(host)}")
        if self._access.needs_token(scope["method"], scope["path"]):
            self._require_token(headers.get(b"authorization"))
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length[:20]) > self._limits.largest_body:
            raise self._too_large()

    def _require_token(self, shown_token: bytes | None) -> None:
        if self._access.token.admits(shown_token):
            return
        why = "no token was shown" if shown_token is None else "the token is wrong"
        raise Problem(
            401, f"{why}: send it as 'Authorization: Bearer …'", headers={"www-authenticate": "Bearer"}
        )

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
            if taken > self._limits.largest_body:
                raise self._too_large()
            return message

        return limited

    def _too_large(self) -> Problem:
        return Problem(413, f"a body has at most {self._limits.largest_body} bytes", headers=_CLOSE)


_CLOSE = {"connection": "close"}


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
