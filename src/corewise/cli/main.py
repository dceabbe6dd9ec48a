"""The ``corewise`` command.

Nothing heavy is imported here nor at the top of a verb's file, so that ``corewise --help`` is quick.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from io import TextIOWrapper
from typing import Annotated, NoReturn

import typer

from corewise.cli.advise import advise
from corewise.cli.allocate import allocate
from corewise.cli.compare import compare
from corewise.cli.estimate import estimate
from corewise.cli.evaluate import evaluate
from corewise.cli.fit import fit
from corewise.cli.import_log import import_log
from corewise.cli.init import init
from corewise.cli.learn.command import learn
from corewise.cli.live.group import live
from corewise.cli.plan import plan
from corewise.cli.reporting import BAD_INPUT, INTERRUPTED, READER_GONE
from corewise.cli.reproduce import reproduce
from corewise.cli.serve import serve
from corewise.cli.simulate import simulate
from corewise.cli.solve import solve
from corewise.cli.sweep import sweep
from corewise.kit.interruption import still_at_work
from corewise.kit.version import __version__

__all__ = ["app", "main"]

_SOON = 0.01  # seconds

# Plain help: rich's markup would double the time that --help takes.
app = typer.Typer(
    name="corewise",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
)
VERBS = (
    init,
    solve,
    evaluate,
    allocate,
    compare,
    simulate,
    estimate,
    fit,
    learn,
    reproduce,
    sweep,
    plan,
    advise,
    serve,
)
for verb in VERBS:
    app.command()(verb)
app.add_typer(live)
app.command("import")(import_log)


def _print_version(asked: bool) -> None:
    if asked:
        print(f"corewise {__version__}")
        raise typer.Exit


@app.callback()
def root(
    _version: Annotated[
        bool,
        typer.Option("--version", help="Show the version and exit.", callback=_print_version, is_eager=True),
    ] = False,
) -> None:
    """Share the cores of a pool between classes of jobs so that they finish sooner.

    SYSTEM is a TOML file (`corewise init` writes one to start from) or a system that comes with the package:
    paper:1, paper:2, paper:3, paper:4, paper:drift, day:gpu.
    """


def _interrupt_again(lost: sys.UnraisableHookArgs) -> None:
    """Interrupt once more if Ctrl-C came where nothing can be raised, such as a callback of the compiler."""
    if isinstance(lost.exc_value, KeyboardInterrupt):
        # Not now: nothing can be raised here either.
        main_thread = threading.main_thread().ident
        threading.Timer(_SOON, signal.pthread_kill, (main_thread, signal.SIGINT)).start()
    else:
        sys.__unraisablehook__(lost)


def _run() -> None:
    """Run the command, and see to it that what it printed has gone out: else that is an error as well."""
    try:
        try:
            app()
        finally:
            if sys.stdout is not None:  # None: it was closed before the program began
                sys.stdout.flush()
    except BrokenPipeError:
        _say_no_more()
        sys.exit(READER_GONE)
    except OSError as error:
        _say_no_more()
        print(f"error: output: {error.strerror or error}", file=sys.stderr)
        sys.exit(BAD_INPUT)


def _say_no_more() -> None:
    """Let what stdout still holds go nowhere: else Python tries once more to write it, with a traceback."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _end(code: int | str | None) -> NoReturn:
    """End the program; at once, if compiled code that was interrupted is still at work in another thread."""
    if still_at_work():
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        os._exit(code if isinstance(code, int) else int(code is not None))
    sys.exit(code)


def main() -> None:
    """Run the command line."""
    for stream in (sys.stdout, sys.stderr):
        # A name that the terminal's encoding cannot show must not end the program.
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    sys.unraisablehook = _interrupt_again
    try:
        _run()
    except KeyboardInterrupt:
        _end(INTERRUPTED)
    except SystemExit as end:
        _end(end.code)
    finally:
        # All is said: one more Ctrl-C ends what is left of the process at once, and without a word.
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
