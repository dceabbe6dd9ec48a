"""The routes of the service, described by ``openapi.json``, and the page that comes with the package."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import Future
from functools import partial
from hashlib import sha256
from importlib import resources
from typing import Any, TypeVar

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from corewise.errors import CorewiseError, InvalidInput
from corewise.kit.checks import shown
from corewise.kit.jsonable import to_json
from corewise.kit.version import __version__
from corewise.live.service import wire
from corewise.live.service.access import Access, AccessMiddleware
from corewise.live.service.metrics import exposed
from corewise.live.service.pool_file import Limits
from corewise.live.service.runtime import ServiceRuntime
from corewise.live.service.wire import Problem
from corewise.live.state.controller import Controller
from corewise.observation import events as happened

__all__ = ["description", "make_app"]

_LONGEST_WAIT = 30.0  # seconds of a long poll
_LONGEST_NAME = 200  # characters
_EVERY = 0.5  # seconds between two states of the stream
_ALIVE = 10.0  # seconds without a change after which the stream sends a comment
_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
}
_T = TypeVar("_T")


def make_app(runtime: ServiceRuntime, access: Access, limits: Limits) -> AccessMiddleware:
    """Return the application: all routes, behind the middleware that controls access."""
    routes = _Routes(runtime)
    app = Starlette(
        routes=[
            *routes.all(),
            Route("/openapi.json", partial(_send_json, description(limits.root_path))),
            *_page(),
        ],
        exception_handlers=dict.fromkeys(
            (Problem, HTTPException, ClientDisconnect, Exception), _error_response
        ),
    )
    routes.middleware = AccessMiddleware(app, access, limits)
    return routes.middleware


def description(root_path: str = "") -> dict[str, Any]:
    """Return the OpenAPI description of the service below a path."""
    text = resources.files("corewise.live.service").joinpath("openapi.json").read_text(encoding="utf-8")
    described: dict[str, Any] = json.loads(text)
    described["info"]["version"] = __version__
    if root_path:
        described["servers"] = [{"url": root_path}]
    return described


class _Routes:
    """Routes of the service."""

    middleware: AccessMiddleware

    def __init__(self, runtime: ServiceRuntime) -> None:
        self._runtime = runtime
        self._stream = _StateStream(runtime)

    def all(self) -> list[Route]:
        """Return all routes, the busiest first."""
        return [
            Route("/v1/events", self.post_events, methods=["POST"]),
            Route("/v1/instructions", self.instructions),
            Route("/v1/allocation", self.allocation),
            Route("/v1/jobs/{job:path}/explanation", self.explanation),
            Route("/v1/estimates", self.estimates),
            Route("/v1/report", self.report),
            Route("/v1/policy", self.policy),
            Route("/v1/history", self.history),
            Route("/v1/mode", self.put_mode, methods=["PUT"]),
            Route("/v1/limits", self.put_limits, methods=["PUT"]),
            Route("/v1/jobs", self.put_jobs, methods=["PUT"]),
            Route("/v1/stream", self.stream),
            Route("/metrics", self.metrics),
            Route("/healthz", partial(self.health, "ok")),
            Route("/readyz", partial(self.health, "ready")),
        ]

    # --- writing ------------------------------------------------------------------------------------

    async def post_events(self, request: Request) -> Response:
        """Take in events, one or a batch; they are on the disk when they are acknowledged."""
        events, undated = wire.reported_events(await request.body(), self._runtime.earliest)
        numbers = await self._accepted(self._runtime.submit(events, undated))
        log = self._runtime.instructions
        answer = {
            "accepted": len(numbers),
            "duplicates": len(events) - len(numbers),
            "instructions": log.of_events(numbers),
            "last": log.last,
            "journal": log.journal,
        }
        return Response(_encoded(answer), media_type="application/json")

    async def put_mode(self, request: Request) -> Response:
        """Set the mode of operation."""
        mode = wire.mode_in(await request.body())
        await self._requested(happened.ModeChanged, mode)
        return _json({"mode": mode})

    async def put_limits(self, request: Request) -> Response:
        """Set the limits of the jobs of a class that have none of their own."""
        limits = wire.limits_in(await request.body())
        await self._requested(happened.LimitsChanged, *limits.values())
        return _json(limits)

    async def put_jobs(self, request: Request) -> Response:
        """Reconcile the jobs of the controller with those of the scheduler."""
        listed, at = wire.jobs_in(await request.body(), self._runtime.earliest)
        found = await self._accepted(asyncio.wrap_future(self._runtime.runner.reconcile(listed, at)))
        log = self._runtime.instructions
        answer = {"ended": found.ended, "present": found.present, "resized": found.resized}
        more = {"instructions": log.of_events(found.numbers), "last": log.last, "journal": log.journal}
        return _json({**answer, **more})

    async def _requested(self, kind: type[happened.Event], *values: Any) -> None:
        async def requested() -> None:
            await asyncio.wrap_future(self._runtime.runner.requested(kind, *values))

        await self._accepted(requested())

    async def _accepted(self, outcome: Awaitable[_T]) -> _T:
        try:
            return await outcome
        except InvalidInput as error:
            raise Problem(409, str(error)) from None
        except CorewiseError as error:
            raise Problem(503, str(error), headers={"retry-after": "1"}) from None

    # --- reading ------------------------------------------------------------------------------------

    async def instructions(self, request: Request) -> Response:
        """Return the instructions behind a number; wait for the next if there is none yet."""
        query = request.query_params
        after = wire.whole_in(query.get("after"), 0, 0, 2**62, "after")
        most = wire.whole_in(query.get("most"), wire.BATCH, 1, wire.BATCH, "most")
        wait = wire.number_in(query.get("wait"), 0.0, _LONGEST_WAIT, "wait")
        self._require_number(after, query.get("journal"))
        loop = asyncio.get_running_loop()
        until = loop.time() + wait
        notifier, log = self._runtime.notifier, self._runtime.instructions
        while True:
            seen = notifier.changes
            found = await loop.run_in_executor(None, log.after, after, most) if log.last > after else []
            left = until - loop.time()
            if found or left <= 0.0 or notifier.ended:
                return _json({"instructions": found, "last": log.last, "journal": log.journal})
            await notifier.wait(seen, left)

    def _require_number(self, after: int, journal: str | None) -> None:
        log = self._runtime.instructions
        if journal is not None and len(journal) > _LONGEST_NAME:
            raise Problem(422, f"must have at most {_LONGEST_NAME} characters, got {len(journal)}", "journal")
        if journal is not None and journal != log.journal:
            raise Problem(
                409, f"after={after} is a number of the journal {shown(journal)}, and this is {log.journal!r}"
            )
        if after > log.last:
            raise Problem(
                409,
                f"after={after} is beyond {log.last}, the last instruction of the journal {log.journal!r}",
            )

    async def allocation(self, _request: Request) -> Response:
        """Return the cores of every job, and the last instruction by then."""

        def look(controller: Controller) -> dict[str, Any]:  # in the thread that numbers instructions
            log = self._runtime.instructions
            return {**wire.allocation(controller), "last": log.last, "journal": log.journal}

        return await self._answer(look)

    async def explanation(self, request: Request) -> Response:
        """Return why a job holds the cores that it holds."""
        name = request.path_params["job"]
        try:
            return await self._answer(lambda controller: wire.explanation(controller, name))
        except InvalidInput as error:
            raise Problem(404, str(error)) from None

    async def estimates(self, _request: Request) -> Response:
        """Return the estimates of each class, now and after each window."""

        def look(controller: Controller) -> dict[str, Any]:
            rows = controller.report().as_mapping()["classes"]
            return {
                "classes": {row["name"]: row["learned"] for row in rows},
                "history": self._runtime.history.estimates(),
            }

        return await self._answer(look)

    async def report(self, _request: Request) -> Response:
        """Return the report of the pool."""
        return await self._answer(lambda controller: controller.report().as_mapping())

    async def policy(self, _request: Request) -> Response:
        """Return the policy in force as a table, if there are two classes."""
        return await self._answer(wire.policy)

    async def history(self, _request: Request) -> Response:
        """Return jobs and cores by class since the start, thinned out."""
        history = self._runtime.history
        return await self._answer(lambda controller: history.samples(controller.system.names))

    async def stream(self, request: Request) -> Response:
        """Stream the state of the pool as server-sent events."""
        if request.method == "HEAD":
            return Response(media_type="text/event-stream")
        return StreamingResponse(self._stream.states(), media_type="text/event-stream")

    async def metrics(self, _request: Request) -> Response:
        """Return the metrics of the pool for Prometheus."""
        report = await self._asked(lambda controller: controller.report().as_mapping())
        found = exposed(report, self._runtime, self.middleware.responses)
        return Response(found, media_type="text/plain; version=0.0.4")

    async def health(self, status: str, _request: Request) -> Response:
        """Return a status, unless events are refused."""
        if self._runtime.error is not None:
            raise Problem(503, self._runtime.error)
        return _json({"status": status})

    async def _asked(self, question: Callable[[Controller], _T]) -> _T:
        try:
            return await asyncio.wrap_future(self._runtime.runner.asked(question))
        except InvalidInput:
            raise
        except CorewiseError as error:  # the runner is closed
            raise Problem(503, str(error)) from None

    async def _answer(self, question: Callable[[Controller], dict[str, Any]]) -> Response:
        return _json(await self._asked(question))


class _StateStream:
    """Stream of states as server-sent events, which all readers share: one look-up serves them all.

    A reader that is slow gets the latest state and not all those before, so that nothing piles up. A reader
    that goes away does not cancel the look-up that others wait for.
    """

    def __init__(self, runtime: ServiceRuntime) -> None:
        self._runtime = runtime
        self._seen = -1
        self._latest = b""
        self._looking: asyncio.Task[None] | None = None

    async def states(self) -> AsyncIterator[bytes]:
        """Yield the state as an event, now and whenever it has changed, twice a second at most."""
        notifier = self._runtime.notifier
        yield b"retry: 1000\n\n"
        seen = -1
        while not notifier.ended:
            if notifier.changes != seen or seen < 0:
                seen = notifier.changes
                try:
                    found = await self._current(seen)
                except CorewiseError:  # the runner is closed
                    return
                yield found
                await notifier.wait(-1 if notifier.ended else seen, 0.0)
                await asyncio.sleep(_EVERY)
            else:
                await notifier.wait(seen, _ALIVE)
                if notifier.changes == seen and not notifier.ended:
                    yield b": still here\n\n"

    async def _current(self, seen: int) -> bytes:
        """Return a state that is not older than a number of changes."""
        while self._seen < seen:
            if self._looking is None:
                self._looking = asyncio.create_task(self._look_up())
                self._looking.add_done_callback(_retrieve)
            await asyncio.shield(self._looking)
        return self._latest

    async def _look_up(self) -> None:
        try:
            seen = self._runtime.notifier.changes
            future: Future[dict[str, Any]] = self._runtime.runner.asked(wire.state)
            found = await asyncio.wrap_future(future)
            found["last"] = self._runtime.instructions.last
            self._latest = f"event: state\ndata: {to_json(found, indent=None)}\n\n".encode()
            self._seen = seen
        finally:
            self._looking = None


def _retrieve(task: asyncio.Task[None]) -> None:
    """Retrieve the error of a look-up: all readers that waited for it may have gone."""
    if not task.cancelled():
        task.exception()


# --- responses --------------------------------------------------------------------------------------

_encoded = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def _json(values: dict[str, Any]) -> Response:
    return Response(to_json(values, indent=None), media_type="application/json")


async def _send_json(values: dict[str, Any], _request: Request) -> Response:
    return _json(values)


async def _error_response(_request: Request, error: Exception) -> Response:
    """Return an error as problem details."""
    if isinstance(error, HTTPException):
        error = Problem(error.status_code, str(error.detail), headers=error.headers)
    elif isinstance(error, ClientDisconnect):
        error = Problem(400, "the request ended before its body did")
    elif not isinstance(error, Problem):
        error = Problem(500, "internal error, see the server log")
    return Response(error.content(), error.status, error.headers, "application/problem+json")


# --- the page ---------------------------------------------------------------------------------------


def _page() -> list[Route]:
    """Return the routes of the page and its files, all of which come with the package."""
    folder = resources.files("corewise.live.service").joinpath("static")
    files = {file.name: file.read_bytes() for file in folder.iterdir() if file.name.split(".")[-1] in _TYPES}
    places = {f"/static/{name}": name for name in files} | {"/": "index.html", "/favicon.ico": "icon.svg"}
    return [
        Route(place, partial(_file, files[name], _TYPES[name.split(".")[-1]]))
        for place, name in places.items()
    ]


async def _file(content: bytes, media: str, request: Request) -> Response:
    """Return a file, unless the browser has it."""
    tag = f'"{sha256(content).hexdigest()[:32]}"'
    headers = {"etag": tag, "cache-control": "no-cache"}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(content, media_type=media, headers=headers)
