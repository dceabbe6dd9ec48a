"""Errors as problem details (RFC 9457): what is wrong and with which value, and never how we know."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from pydantic_core import ErrorDetails

from corewise.errors import CorewiseError, nearest
from corewise.kit.checks import shown
from corewise.kit.jsonable import to_json

__all__ = ["Problem", "said_of"]

_MOST = 20  # errors that are told of one request


class Problem(Exception):
    """Problem with a request.

    Parameters
    ----------
    status : int
        The status code.
    detail : str
        What is wrong, with the offending value.
    errors : sequence of mapping, optional
        Several things that are wrong, each with where.
    headers : mapping, optional
        What else to answer.
    """

    def __init__(
        self,
        status: int,
        detail: str,
        errors: list[dict[str, Any]] | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status, self.headers = status, headers or {}
        self.detail = str(CorewiseError(detail))  # one line, nothing that moves the cursor
        self.errors = errors

    def content(self) -> bytes:
        """Return the body of the answer."""
        status = HTTPStatus(self.status)
        body: dict[str, Any] = {
            "type": "about:blank",
            "title": status.phrase,
            "status": self.status,
            "detail": self.detail,
        }
        if self.errors is not None:
            body["errors"] = self.errors
        return to_json(body, indent=None).encode()


def said_of(errors: list[ErrorDetails]) -> Problem:
    """Return the problem with what was sent, if it is not what it should be."""
    rows = [{"where": _where(error), "detail": _detail(error)} for error in errors[:_MOST]]
    first = f"{rows[0]['where']}: {rows[0]['detail']}" if rows[0]["where"] else rows[0]["detail"]
    return Problem(422, first, rows)


def _where(error: ErrorDetails) -> str:
    """Return the path to a value; the kind of an event, by which its type was found, is no part of it."""
    path = ""
    for part in error["loc"]:
        if isinstance(part, int):
            path += f"[{part}]"
        elif "-" not in part:
            path += f".{part}" if path else part
    return path


def _detail(error: ErrorDetails) -> str:
    value = error["input"]
    if error["type"] == "union_tag_invalid":
        known = [word.strip(" '") for word in error["ctx"]["expected_tags"].split(",")]
        tag = error["ctx"]["tag"]
        return f"unknown kind of event {shown(tag)}{nearest(tag, known)}"
    if error["type"] == "extra_forbidden":
        return "unknown key"
    if error["type"] == "json_invalid":
        return f"not JSON: {error['ctx']['error']}"
    told = error["msg"][:1].lower() + error["msg"][1:]
    return told if error["type"] in {"missing", "union_tag_not_found"} else f"{told}, got {shown(value)}"
