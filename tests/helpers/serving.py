"""A service in this process, as a test needs it: quick to start, and its solver is a thread."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from corewise.kit.workers import ExecutorWorkers, Workers
from corewise.learning.algorithms import Algorithm
from corewise.live.client import Client
from corewise.live.service.pool_file import load_pool
from corewise.live.service.runtime import ServiceRuntime
from corewise.live.service.server import OpenService, open_service

POOL = """\
cores = 8

[[class]]
name = "one"
speedup = { family = "amdahl", p = 0.5 }

[[class]]
name = "two"
speedup = { family = "amdahl", p = 0.5 }
"""


@dataclass(frozen=True)
class Service:
    """A service that runs: where it is, its token, its runtime, and the thread that answers."""

    address: str
    token: str
    runtime: ServiceRuntime
    thread: threading.Thread

    def client(self, **options: Any) -> Client:
        return Client(self.address, self.token, **{"patience": 5.0, **options})

    def ask(
        self, method: str, path: str, body: object = None, *, token: str | None = None, **headers: str
    ) -> tuple[int, dict[str, str], Any]:
        """Return the status, the headers and the JSON of one answer."""
        content = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        connection = HTTPConnection(self.address.removeprefix("http://"), timeout=30.0)
        connection.request(method, path, content, headers)
        response = connection.getresponse()
        text = response.read()
        named = {name.lower(): value for name, value in response.getheaders()}
        connection.close()
        kind = named.get("content-type", "")
        return response.status, named, json.loads(text) if "json" in kind else text


@contextmanager
def threads(_algorithm: Algorithm) -> Iterator[Workers]:
    """Give a thread to solve in: nothing is warmed up."""
    workers = ExecutorWorkers(ThreadPoolExecutor(1))
    try:
        yield workers
    finally:
        workers.close()


@contextmanager
def service(
    folder: Path, text: str = POOL, *, host: str = "127.0.0.1", port: int = 0, watch: bool = False
) -> Iterator[Service]:
    """Give a service whose files are in a folder."""
    (folder / "pool.toml").write_text(text)
    with quickly_opened(folder, host=host, port=port, watch=watch) as running:
        thread = threading.Thread(target=running.run)
        thread.start()
        try:
            token = (folder / "pool.db.token").read_text().strip()
            yield Service(running.address, token, running.runtime, thread)
        finally:
            running.stop()
            thread.join()


def quickly_opened(folder: Path, **options: Any) -> AbstractContextManager[OpenService]:
    """Give a service whose files are in a folder, which nobody runs yet."""
    pool = load_pool(folder / "pool.toml")
    return open_service(pool, folder / "pool.db", folder / "pool.db.token", solver=threads, **options)


@contextmanager
def proxy(address: str, prefix: str, *, strips: bool) -> Iterator[str]:
    """Give the address of a reverse proxy that has a service below a path, and takes that away or not."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.removeprefix(prefix) if strips else self.path
            below = HTTPConnection(address.removeprefix("http://"), timeout=30.0)
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            headers = dict(self.headers.items())
            below.request(self.command, path if self.path.startswith(prefix) else "/nothing", body, headers)
            with below.getresponse() as answer, suppress(OSError):  # a reader may go away
                self.send_response(answer.status)
                for name, value in answer.getheaders():
                    if name.lower() not in {"transfer-encoding", "connection"}:
                        self.send_header(name, value)
                self.send_header("Connection", "close")
                self.end_headers()
                while piece := answer.read1(65536):
                    self.wfile.write(piece)
            below.close()

        do_PUT = do_POST = do_GET  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    with _listening(Handler) as port:
        yield f"http://127.0.0.1:{port}"


@contextmanager
def web(pages: Mapping[str, bytes]) -> Iterator[str]:
    """Give the address of another web server, with some pages; its origin is not that of a service."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path in pages else 404)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(pages.get(self.path, b""))

        def log_message(self, *_: object) -> None:
            pass

    with _listening(Handler) as port:
        yield f"http://localhost:{port}"


@contextmanager
def _listening(handler: type[BaseHTTPRequestHandler]) -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
