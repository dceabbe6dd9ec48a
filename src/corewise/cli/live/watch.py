"""``corewise live watch``: follow a service in the terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from corewise.cli.options import AsJson
from corewise.cli.reporting import reporting
from corewise.errors import CorewiseError, InvalidFile, printable
from corewise.kit.files import read_bytes
from corewise.kit.jsonable import to_json
from corewise.kit.times import in_force_since, instant

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from corewise.live.client import Client

__all__ = ["watch"]

_JOBS = 20  # shown
_PAUSE = 1.0  # seconds between two tries to get hold of a service


@reporting
def watch(
    url: Annotated[str, typer.Argument(metavar="URL", help="Where the service is: http://127.0.0.1:8410.")],
    token_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The token, which reading from elsewhere needs.")
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Show how it stands now, and end.")] = False,
    as_json: AsJson = False,
) -> None:
    """Follow a service: cores by class, every job and why it holds what it holds, alerts.

    A service that stops is waited for; Ctrl-C ends it. With --json a line for each state.
    """
    from corewise.live.client import Client

    client = Client(url, None if token_file is None else _token(token_file), patience=5.0)
    client.report()  # whether there is a service at all is said at once
    with ExitStack() as stack:
        show = _printer(as_json, once, stack)
        for state in _states(client, once):
            show(state)
            if once:
                return


def _states(client: Client, once: bool) -> Iterator[dict[str, Any]]:
    """Yield states, also beyond a restart of the service."""
    while True:
        try:
            yield from client.states()
        except (OSError, CorewiseError) as error:
            if once:
                raise CorewiseError(f"the stream has ended: {error}") from None
        time.sleep(_PAUSE)


def _printer(as_json: bool, once: bool, stack: ExitStack) -> Any:
    """Return what shows a state: a line of JSON, a picture that changes, or one after the other."""
    if as_json:
        return lambda state: print(to_json(state, indent=None), flush=True)
    from rich.console import Console

    console = Console(markup=False, highlight=False, emoji=False)
    if once or sys.stdout is None or not sys.stdout.isatty():
        return lambda state: console.print(picture(state))
    from rich.live import Live

    live = stack.enter_context(Live(console=console, refresh_per_second=4))
    return lambda state: live.update(picture(state))


def _token(path: Path) -> str:
    try:
        return read_bytes(path).decode("ascii").strip()
    except UnicodeDecodeError:
        raise InvalidFile(f"{path}: no token, it is not ASCII") from None


def picture(state: Mapping[str, Any]) -> RenderableType:
    """Return a state for people."""
    from rich.console import Group

    report = state["report"]
    parts: list[RenderableType] = [_head(report), _classes(report), _jobs(state["allocation"]["jobs"])]
    if report.get("reason"):
        parts.insert(1, printable(report["reason"]))
    parts += [f"! {printable(alert['about'])}: {printable(alert['text'])}" for alert in report["alerts"][-5:]]
    parts += [f"Δ {printable(alarm['text'])}" for alarm in report["alarms"][-5:]]
    return Group(*parts)


def _head(report: Mapping[str, Any]) -> str:
    gain = report["gain"]
    by = "" if report["in_force"] else " by the last policy solved for, not adopted"
    expected = "" if gain is None else f"; {_percent(gain['expected'])} less cost than EQUI expected{by}"
    return (
        f"at {instant(report['time'])}, {report['mode']}: {report['held']} of {report['pool']} cores held by "
        f"{report['jobs']} jobs, by {printable(report['policy'])} "
        f"{in_force_since(report['since'], report['time'])}{expected}"
    )


def _classes(report: Mapping[str, Any]) -> RenderableType:
    table = _table(("class", "jobs", "wait", "held", "told", "finished", "response", "learned"), 1)
    for row in report["classes"]:
        counts = [str(row[key]) for key in ("jobs", "waiting", "held", "told", "finished")]
        mean = row["responses"]["mean"]
        table.add_row(
            printable(row["name"]), *counts, "" if mean is None else f"{mean:.4g}", _learned(row["learned"])
        )
    return table


def _learned(row: Mapping[str, Any] | None) -> str:
    if row is None or not row["informative"]:
        return "nothing yet"
    ends = {name: f" [{low:.3g}, {high:.3g}]" for name, (low, high) in row["intervals"].items()}
    return ", ".join(f"{name} = {value:.3g}{ends.get(name, '')}" for name, value in row["parameters"].items())


def _jobs(jobs: list[Mapping[str, Any]]) -> RenderableType:
    table = _table(("job", "holds", "told", "why"), 1)
    for row in jobs[:_JOBS]:
        table.add_row(
            printable(row["job"]), str(row["held"]), str(row["told"]), printable(row.get("why", ""))
        )
    if len(jobs) > _JOBS:
        table.add_row(f"and {len(jobs) - _JOBS} more", "", "", "")
    return table


def _table(columns: tuple[str, ...], names: int) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    for i, column in enumerate(columns):
        last = i == len(columns) - 1
        table.add_column(column, justify="left" if i < names or last else "right", overflow="fold")
    return table


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}"
