"""``corewise serve``: the live controller as a service."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from corewise.cli.options import whole_number
from corewise.cli.reporting import TRY_AGAIN, fail, reporting
from corewise.errors import CorewiseError, InvalidInput, JournalUnavailable, printable

if TYPE_CHECKING:
    from corewise.live.service.runtime import ServiceRuntime

__all__ = ["serve"]

_PORT = "8410"
_LAST_PORT = 65_535


@reporting
def serve(
    pool: Annotated[
        Path, typer.Argument(metavar="POOL", help="A pool file: the cores and the classes of jobs.")
    ],
    journal: Annotated[
        Path, typer.Option(metavar="FILE", help="Where events are kept; one that is there is continued.")
    ],
    watch: Annotated[
        bool, typer.Option("--watch", help="Watch only: no core is moved, and what would be is counted.")
    ] = False,
    port: Annotated[str, typer.Option(metavar="N", help="Where to listen; 0 takes a free port.")] = _PORT,
    host: Annotated[
        str,
        typer.Option(metavar="H", help="Where to listen; beyond this machine reading needs the token, too."),
    ] = "127.0.0.1",
    token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The token that writing needs; made if there is none. Default: beside the journal.",
        ),
    ] = None,
) -> None:
    """Serve a pool to any scheduler over HTTP, with a page to look at.

    A scheduler reports what happens to its jobs, and receives how many cores each should hold. A pool that is
    there goes on as it was; a new one is steered, unless it is only to be watched. SIGHUP reloads the token
    and limits of the pool file. Exit code 75 if it cannot go on and is to be started again, 2 for bad input.
    """
    number = whole_number(port, "--port")
    if number > _LAST_PORT:
        raise InvalidInput(f"--port must be at most {_LAST_PORT}, got {port!r}")
    try:
        from corewise.live.service.pool_file import load_pool
        from corewise.live.service.server import serve as serve_pool
    except ModuleNotFoundError as error:
        raise InvalidInput(
            f"serving needs the module {error.name!r}; pip install 'corewise[serve]' brings all that it needs"
        ) from None
    token = Path(f"{journal}.token") if token_file is None else token_file

    serving = False

    def say(address: str, runtime: ServiceRuntime) -> None:
        nonlocal serving
        serving = True
        line = (
            f"{address} serves {runtime.cores} cores for {', '.join(runtime.names)}; the token is in {token}"
        )
        print(printable(line), flush=True)

    try:
        serve_pool(load_pool(pool), journal, token, host=host, port=number, watch=watch, ready=say)
    except CorewiseError as error:
        if serving or isinstance(error, JournalUnavailable):
            fail(str(error), TRY_AGAIN)
        raise
