"""The description of the service: what each route may answer, and the bodies that are read by hand."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from corewise.live.service import wire

__all__ = ["add_route", "described"]

_REFERENCE = "#/components/schemas/{model}"
_PROBLEMS = {
    400: "What was sent is no JSON.",
    401: "The token is missing or wrong.",
    403: "A page of another origin has asked.",
    408: "The body took too long.",
    413: "The body is too large.",
    421: "Nobody calls this service by that name.",
    422: "What was sent is not what it should be; the detail names the value.",
    429: "Too many requests from one address.",
    503: "Events cannot be written, or there are too many readers or connections.",
}


def add_route(
    app: FastAPI,
    method: str,
    path: str,
    route: Callable[..., Any],
    model: type | None,
    *,
    also: dict[int, str] | None = None,
    media: str = "application/json",
) -> None:
    """Add a route with all that it may answer."""
    problems = _PROBLEMS | (also or {})
    responses: dict[int | str, dict[str, Any]] = {
        status: {
            "description": text,
            "content": {
                "application/problem+json": {"schema": {"$ref": _REFERENCE.format(model="ProblemView")}}
            },
        }
        for status, text in sorted(problems.items())
    }
    content = {media: {"schema": {"type": "string"}}} if model is None else {}
    responses[200] = {
        "description": HTTPStatus.OK.phrase,
        **({"model": model} if model else {"content": content}),
    }
    extra: dict[str, Any] = {} if path in {"/healthz", "/readyz"} else {"security": [{"token": []}]}
    app.add_api_route(
        path, route, methods=[method], response_model=None, responses=responses, openapi_extra=extra
    )


def described(app: FastAPI) -> dict[str, Any]:
    """Return the description of the service, complete with the bodies that are read by hand."""
    if app.openapi_schema is None:
        made = get_openapi(
            title=app.title,
            version=app.version,
            summary=app.summary,
            routes=app.routes,
            openapi_version="3.1.0",
            servers=app.servers or None,
        )
        schema, named = wire.batch_schema(_REFERENCE)
        bodies = {("/v1/events", "post"): schema}
        for path, model in (
            ("/v1/mode", wire.ModeWanted),
            ("/v1/limits", wire.LimitsWanted),
            ("/v1/jobs", wire.JobsWanted),
        ):
            body_schema = model.model_json_schema(ref_template=_REFERENCE)
            named |= body_schema.pop("$defs", {})
            named[model.__name__] = body_schema
            bodies[path, "put"] = {"$ref": _REFERENCE.format(model=model.__name__)}
        for (path, method), body in bodies.items():
            content = {"application/json": {"schema": body}}
            made["paths"][path][method]["requestBody"] = {"required": True, "content": content}
        components = made["components"]
        named["ProblemView"] = wire.ProblemView.model_json_schema(ref_template=_REFERENCE)
        components["schemas"] = {**components["schemas"], **named}
        components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        app.openapi_schema = made
    return app.openapi_schema
