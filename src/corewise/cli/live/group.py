"""``corewise live``: the verbs around a live pool."""

from __future__ import annotations

import typer

from corewise.cli.live.backup import backup
from corewise.cli.live.demo import demo
from corewise.cli.live.doctor import doctor
from corewise.cli.live.events import events
from corewise.cli.live.explain import explain
from corewise.cli.live.replay import replay
from corewise.cli.live.status import status
from corewise.cli.live.watch import watch

__all__ = ["live"]

live = typer.Typer(
    name="live",
    help="Share real cores: see it work, and look at the journal of a pool.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
)
for verb in (demo, status, explain, events, replay, backup, doctor, watch):
    live.command()(verb)
