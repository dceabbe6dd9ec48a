"""The routes of the service."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated, Any, TypeVar

from fastapi import FastAPI, Path, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import StreamingResponse
from pydantic import TypeAdapter
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Receive, Scope, Send

from corewise.errors import CorewiseError, InvalidInput
from corewise.kit.checks import shown
from corewise.kit.jsonable import to_json
from corewise.kit.version import __version__
from corewise.live.service import views, wire
from corewise.live.service.description import add_route, described
from corewise.live.service.desk import Desk
from corewise.live.service.guard import Access, Guard
from corewise.live.service.metrics import exposed
from corewise.live.service.pool_file import Limits
from corewise.live.service.problems import Problem, said_of
from corewise.live.service.site import add_site
from corewise.live.service.stream import Stream
from corewise.live.state.controller import Controller
from corewise.live.state.reconcile import ListedJob
from corewise.observation import events as happened

__all__ = ["make_app"]

_LONGEST_WAIT = 30.0  # seconds of a long poll
_log = logging.getLogger("corewise.service")
_T = TypeVar("_T")
_MODE: TypeAdapter[wire.ModeWanted] = TypeAdapter(wire.ModeWanted)
_JOBS: TypeAdapter[wire.JobsWanted] = TypeAdapter(wire.JobsWanted)
_LIMITS: TypeAdapter[wire.LimitsWanted] = TypeAdapter(wire.LimitsWanted)


def make_app(desk: Desk, access: Access, limits: Limits) -> Guard:
    """Return the application: all routes, behind the guard."""
    app = FastAPI(
        title="corewise",
        version=__version__,
        summary="Shares the cores of a pool between jobs so that they finish sooner.",
        docs_url=None,
        redoc_url=None,
        servers=[{"url": limits.root_path}] if limits.root_path else None,
    )
    for kind in (Problem, RequestValidationError, HTTPException, ClientDisconnect, Exception):
        app.add_exception_handler(kind, _told)
    shortcut = _Shortcut(app)
    guard = Guard(shortcut, access, limits)
    routes = _Routes(desk, guard)
    routes.add_to(app)
    shortcut.routes["POST", "/v1/events"] = routes.post_events
    add_site(app)
    app.openapi = partial(described, app)  # type: ignore[method-assign]
    return guard


class _Shortcut:
    """Way around FastAPI, for what is asked most: to find a route takes it longer than to answer.

    Parameters
    ----------
    app : ASGI application
        Where all else goes, and where the route is described.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.routes: dict[tuple[str, str], Callable[[Request], Awaitable[Response]]] = {}
        """Who answers, by method and path."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or have it answered."""
        route = self.routes.get((scope.get("method", ""), scope.get("path", "")))
        if route is None:
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        try:
            response = await route(request)
        except Exception as error:
            if not isinstance(error, Problem | ClientDisconnect):
                _log.exception("no answer to %s %s", scope["method"], scope["path"])
            response = await _told(request, error)
        await response(scope, receive, send)


class _Routes:
    """What can be asked."""

    def __init__(self, desk: Desk, guard: Guard) -> None:
        self._desk, self._guard = desk, guard
        self._stream = Stream(desk)

    def add_to(self, app: FastAPI) -> None:
        """Add all routes."""
        add = partial(add_route, app)
        add("POST", "/v1/events", self.post_events, wire.Acknowledged, also={409: "It cannot have happened."})
        elsewhere = {409: "The number is one of another journal."}
        add("GET", "/v1/instructions", self.instructions, wire.InstructionPage, also=elsewhere)
        add("GET", "/v1/allocation", self.allocation, wire.Allocation)
        missing = {404: "No such job is there."}
        add("GET", "/v1/jobs/{job:path}/explanation", self.explanation, wire.Explained, also=missing)
        add("GET", "/v1/estimates", self.estimates, wire.EstimatesView)
        add("GET", "/v1/report", self.report, wire.ReportView)
        add("GET", "/v1/policy", self.policy, wire.PolicyView)
        add("GET", "/v1/history", self.history, wire.HistoryView)
        add("PUT", "/v1/mode", self.put_mode, wire.ModeWanted)
        add("PUT", "/v1/limits", self.put_limits, wire.LimitsWanted, also={409: "No such class is there."})
        clash = {409: "A job is listed twice, or is of another class; or no such class is there."}
        add("PUT", "/v1/jobs", self.put_jobs, wire.ReconciledView, also=clash)
        add("GET", "/v1/stream", self.stream, None, media="text/event-stream")
        add("GET", "/metrics", self.metrics, None, media="text/plain")
        add("GET", "/healthz", self.healthz, wire.Health)
        add("GET", "/readyz", self.readyz, wire.Health)

    # --- writing ------------------------------------------------------------------------------------

    async def post_events(self, request: Request) -> Response:
        """Tell what has happened: one event, or up to 1000 of which all are taken in or none.

        Acknowledged means that they are on the disk. Told again under the same id, an event changes nothing:
        whoever gets no answer tells again. The instructions are those that came of the events that are new;
        all are at `/v1/instructions`.
        """
        events, undated = wire.events_in(await request.body(), self._desk.earliest)
        numbers = await self._taken(self._desk.told(events, undated))
        answer = {
            "accepted": len(numbers),
            "duplicates": len(events) - len(numbers),
            "instructions": self._desk.feed.of_events(numbers),
            "last": self._desk.feed.last,
            "journal": self._desk.feed.journal,
        }
        return Response(_encoded(answer), media_type="application/json")

    async def put_mode(self, request: Request) -> Response:
        """Watch, steer or hold from now on."""
        wanted = wire.parsed(_MODE, await request.body())
        await self._taken(asyncio.wrap_future(self._desk.order(happened.ModeChanged, wanted.mode)))
        return _json(wanted.model_dump())

    async def put_limits(self, request: Request) -> Response:
        """Set the fewest and the most cores of the jobs of a class that have no limits of their own."""
        wanted = wire.parsed(_LIMITS, await request.body())
        try:
            order = self._desk.order(happened.LimitsChanged, wanted.job_class, wanted.least, wanted.most)
        except InvalidInput as error:
            raise Problem(422, str(error)) from None
        await self._taken(asyncio.wrap_future(order))
        return _json(wanted.model_dump())

    async def put_jobs(self, request: Request) -> Response:
        """Say which jobs there are, running or waiting, and what each of them holds.

        Jobs that are not listed are ended as lost, unless they came later; those that were not known are
        taken in as present; what the others hold is put right. All of it or nothing.
        """
        wanted: wire.JobsWanted = wire.parsed(_JOBS, await request.body())
        try:
            at = wire.dated(wanted.time, time.time(), self._desk.earliest, "jobs")
        except InvalidInput as error:
            raise Problem(422, str(error)) from None
        listed = [ListedJob(**dict(row)) for row in wanted.jobs]
        found = await self._taken(asyncio.wrap_future(self._desk.reconcile(listed, at)))
        feed = self._desk.feed
        instructions = feed.of_events(found.numbers)
        more = {"instructions": instructions, "last": feed.last, "journal": feed.journal}
        return _json({"ended": found.ended, "present": found.present, "resized": found.resized, **more})

    async def _taken(self, outcome: Awaitable[_T]) -> _T:
        try:
            return await outcome
        except InvalidInput as error:
            raise Problem(409, str(error)) from None
        except CorewiseError as error:
            raise Problem(503, str(error), headers={"retry-after": "1"}) from None

    # --- reading ------------------------------------------------------------------------------------

    async def instructions(
        self,
        after: Annotated[int, Query(ge=0, le=2**62, description="The last number that you know.")] = 0,
        wait: Annotated[
            float, Query(ge=0.0, le=_LONGEST_WAIT, description="Seconds to wait for one, if there is none.")
        ] = 0.0,
        most: Annotated[int, Query(ge=1, le=wire.BATCH, description="How many at most.")] = wire.BATCH,
        journal: Annotated[
            str | None, Query(max_length=200, description="The journal whose number it is, if you know it.")
        ] = None,
    ) -> Response:
        """Return the instructions behind a number; wait for the next if there is none yet.

        Instructions set cores. After a restart the same have the same numbers. A number of another journal,
        or beyond the last one of this journal, is refused with 409.
        """
        self._require_number(after, journal)
        loop = asyncio.get_running_loop()
        until = loop.time() + wait
        bell, feed = self._desk.bell, self._desk.feed
        while True:
            heard = bell.rung
            found = await loop.run_in_executor(None, feed.after, after, most) if feed.last > after else []
            left = until - loop.time()
            if found or left <= 0.0 or bell.ended:
                return _json({"instructions": found, "last": feed.last, "journal": feed.journal})
            await bell.wait(heard, left)

    def _require_number(self, after: int, journal: str | None) -> None:
        feed = self._desk.feed
        if journal is not None and journal != feed.journal:
            raise Problem(
                409,
                f"after={after} is a number of the journal {shown(journal)}, and this is {feed.journal!r}",
            )
        if after > feed.last:
            raise Problem(
                409,
                f"after={after} is beyond {feed.last}, the last instruction of the journal {feed.journal!r}",
            )

    async def allocation(self) -> Response:
        """Return what every job holds, was told to hold and should hold, and the last instruction by then."""

        def look(
            controller: Controller,
        ) -> dict[str, Any]:  # where instructions are numbered, so at one moment
            feed = self._desk.feed
            return {**views.allocation(controller), "last": feed.last, "journal": feed.journal}

        return await self._answer(look)

    async def explanation(self, job: Annotated[str, Path(description="The name of a job.")]) -> Response:
        """Return why a job holds the cores that it holds, in words."""
        try:
            return await self._answer(lambda controller: views.explanation(controller, job))
        except InvalidInput as error:
            raise Problem(404, str(error)) from None

    async def estimates(self) -> Response:
        """Return what has been learned of each class, now and after each window."""

        def look(controller: Controller) -> dict[str, Any]:
            rows = controller.report().as_mapping()["classes"]
            return {
                "classes": {row["name"]: row["learned"] for row in rows},
                "history": self._desk.history.estimates(),
            }

        return await self._answer(look)

    async def report(self) -> Response:
        """Return what the pool does, has learned, and expects to gain."""
        return await self._answer(lambda controller: controller.report().as_mapping())

    async def policy(self) -> Response:
        """Return the policy in force as a table, if there are two classes."""
        return await self._answer(views.policy)

    async def history(self) -> Response:
        """Return jobs and cores by class since the start, thinned out."""
        return await self._answer(lambda _: self._desk.history.samples(self._desk.names))

    async def stream(self) -> Response:
        """Follow the pool: an event `state` whenever something has changed, twice a second at most."""
        return StreamingResponse(self._stream.states(), media_type="text/event-stream")

    async def metrics(self) -> Response:
        """Return the pool for Prometheus."""
        report = await self._asked(lambda controller: controller.report().as_mapping())
        return Response(
            exposed(report, self._desk, self._guard.answers), media_type="text/plain; version=0.0.4"
        )

    async def healthz(self) -> Response:
        """Return whether the service works: it does not if events are refused."""
        self._require_working()
        return _json({"status": "ok"})

    async def readyz(self) -> Response:
        """Return whether events are taken in."""
        self._require_working()
        return _json({"status": "ready"})

    def _require_working(self) -> None:
        if self._desk.broken is not None:
            raise Problem(503, self._desk.broken)

    async def _asked(self, question: Callable[[Controller], _T]) -> _T:
        try:
            return await asyncio.wrap_future(self._desk.asked(question))
        except InvalidInput:
            raise
        except CorewiseError as error:  # the desk is closed
            raise Problem(503, str(error)) from None

    async def _answer(self, question: Callable[[Controller], dict[str, Any]]) -> Response:
        return _json(await self._asked(question))


_encoded = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def _json(values: dict[str, Any]) -> Response:
    return Response(to_json(values, indent=None), media_type="application/json")


async def _told(_request: Request, error: Exception) -> Response:
    """Return an error as problem details."""
    if isinstance(error, HTTPException):
        detail = str(error.detail)
        error = Problem(error.status_code, detail, headers=dict(error.headers or {}))
    elif isinstance(error, RequestValidationError):
        error = said_of(list(error.errors()))
    elif isinstance(error, ClientDisconnect):
        error = Problem(400, "the request ended before its body did")
    elif not isinstance(error, Problem):
        error = Problem(500, "a mistake in here, which the log tells of")
    return Response(error.content(), error.status, error.headers, "application/problem+json")
