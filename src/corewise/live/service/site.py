"""The page: files that come with the package, and nothing from anywhere else."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from hashlib import sha256
from importlib import resources

from fastapi import FastAPI, Request, Response

__all__ = ["add_site"]

_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
}


def add_site(app: FastAPI) -> None:
    """Add the page and its files."""
    folder = resources.files("corewise.live.service").joinpath("static")
    files = {file.name: file.read_bytes() for file in folder.iterdir() if file.name.split(".")[-1] in _TYPES}
    places = {f"/static/{name}": name for name in files} | {"/": "index.html", "/favicon.ico": "icon.svg"}
    for place, name in places.items():
        give = partial(_file, files[name], _TYPES[name.split(".")[-1]])
        app.add_api_route(place, _route(give), methods=["GET"], include_in_schema=False)


def _route(give: partial[Response]) -> Callable[[Request], Awaitable[Response]]:
    async def route(request: Request) -> Response:
        return give(request)

    return route


def _file(content: bytes, media: str, request: Request) -> Response:
    """Return a file, unless the browser has it."""
    tag = f'"{sha256(content).hexdigest()[:32]}"'
    headers = {"etag": tag, "cache-control": "no-cache"}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(content, media_type=media, headers=headers)
