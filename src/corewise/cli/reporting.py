"""How a verb ends when something goes wrong: one line on stderr, and an exit code."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import ParamSpec

import typer

from corewise.errors import CorewiseError

__all__ = ["INTERRUPTED", "reporting"]

P = ParamSpec("P")

BAD_INPUT = 2
INTERRUPTED = 130  # what shells report for Ctrl-C


def reporting(command: Callable[P, None]) -> Callable[P, None]:
    """Turn an error of corewise into one line on stderr and exit code 2, and Ctrl-C into a quiet 130."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except CorewiseError as error:
            _fail(str(error))
        except MemoryError:
            _fail("not enough memory; ask for less: a smaller capacity, or fewer events")
        except BrokenPipeError:
            raise  # the reader has gone: typer ends quietly
        except OSError as error:
            _fail(f"{error.filename or 'output'}: {error.strerror or error}")
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None

    return run


def _fail(message: str) -> None:
    print(f"error: {message}", file=sys.stderr)
    raise typer.Exit(BAD_INPUT) from None
