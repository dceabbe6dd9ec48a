"""How a verb ends when something goes wrong: one line on stderr, and an exit code."""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, ParamSpec

import typer

from corewise.errors import CorewiseError, CurveMoved, printable

__all__ = ["BAD_INPUT", "INTERRUPTED", "READER_GONE", "TRY_AGAIN", "fail", "reporting"]

P = ParamSpec("P")

BAD_INPUT = 2
READER_GONE = 1
TRY_AGAIN = 75  # EX_TEMPFAIL of sysexits.h: what systemd restarts
INTERRUPTED = 130  # what shells report for Ctrl-C


def reporting(command: Callable[P, None]) -> Callable[P, None]:
    """Turn an error of corewise into one line on stderr and exit code 2, and Ctrl-C into a quiet 130.

    Warnings about what was given are a line each on stderr, too.
    """

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            with _warnings_in_a_line():
                command(*args, **kwargs)
        except CorewiseError as error:
            fail(str(error))
        except MemoryError:
            fail("not enough memory; ask for less: a smaller capacity, or fewer events")
        except BrokenPipeError:
            raise  # the reader has gone: typer ends quietly
        except OSError as error:
            fail(f"{error.filename or 'output'}: {error.strerror or error}")
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None

    return run


@contextmanager
def _warnings_in_a_line() -> Iterator[None]:
    """Show warnings about what was given as one line on stderr each."""
    usual = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *where: Any, **how: Any) -> None:
        if issubclass(category, CurveMoved):
            print(f"warning: {printable(str(message))}", file=sys.stderr)
        else:
            usual(message, category, *where, **how)

    with warnings.catch_warnings():
        warnings.simplefilter("default", CurveMoved)
        warnings.showwarning = show
        yield


def fail(message: str, code: int = BAD_INPUT) -> None:
    """End with one line on stderr."""
    if sys.stderr is not None:
        with suppress(OSError):  # stderr is closed: only the exit code is left
            print(f"error: {CorewiseError(message)}", file=sys.stderr, flush=True)
    raise typer.Exit(code) from None
