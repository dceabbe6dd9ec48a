"""Calls and answers as bytes, for workers in other processes.

An executor that packs by itself breaks as a whole where an answer cannot be unpacked, and says of one that
cannot be packed no more than Python does. Here either is the error of that one call.
"""

from __future__ import annotations

import pickle
import re
import traceback
from collections.abc import Callable
from typing import Any

from corewise.errors import CorewiseError, InvalidInput
from corewise.kit import checks

__all__ = ["carry_out", "pack_call", "unpack_answer"]

_OF_MAIN = re.compile(r"Can't get attribute '(?P<name>[^']+)' on <module '(?P<module>__main__|__mp_main__)'")


def pack_call(call: Callable[[], Any]) -> bytes:
    """Return a call as bytes, or refuse it."""
    try:
        return pickle.dumps(call)
    except Exception as error:
        raise InvalidInput(
            f"{checks.shown(call)} cannot be sent to another process, which takes functions that a module "
            f"defines and plain values: {error}"
        ) from error


def carry_out(packed: bytes) -> bytes:
    """Carry out a call in a worker, and return the answer or the error as bytes."""
    try:
        call = _unpack_call(packed)
        answer = call()
    except BaseException as error:
        return _pack_error(error)
    try:
        return pickle.dumps((answer, None))
    except Exception as error:
        return _pack_error(
            InvalidInput(
                f"what {checks.shown(call)} returns cannot be sent back from another process: "
                f"{checks.shown(answer)}: {error}"
            )
        )


def _unpack_call(packed: bytes) -> Callable[[], Any]:
    """Return a call, or say how to have it found here."""
    try:
        call: Callable[[], Any] = pickle.loads(packed)
    except Exception as error:
        raise InvalidInput(
            f"a call cannot be read by the process that is to carry it out: {error}{_way_out(error)}"
        ) from error
    return call


def _way_out(error: Exception) -> str:
    """Return what to do about a name that a worker process does not find, or nothing."""
    missing = _OF_MAIN.search(str(error)) if isinstance(error, AttributeError) else None
    if missing is None:
        return ""
    name = missing["name"]
    if missing["module"] == "__mp_main__":  # a script, which worker processes import under this name
        return (
            f"; define {name!r} where it is defined also when the script is imported, not only when it is run"
        )
    return (
        f"; worker processes do not know what a notebook, a prompt or python -c defines: put {name!r} in a "
        "module and import it, or have threads carry out the calls: ExecutorEngine(ThreadPoolExecutor(4))"
    )


def unpack_answer(packed: bytes) -> Any:
    """Return an answer, or raise the error that was raised in its place."""
    try:
        answer, error = pickle.loads(packed)
    except Exception as reason:
        raise InvalidInput(f"an answer from another process cannot be read here: {reason}") from reason
    if error is not None:
        raise error
    return answer


def _pack_error(error: BaseException) -> bytes:
    """Return an error as bytes, with where it was raised; one that does not survive that by its name."""
    error.add_note("In the worker:\n" + "".join(traceback.format_exception(error)).rstrip())
    try:
        packed = pickle.dumps((None, error))
        pickle.loads(packed)
    except Exception:  # whatever a stranger's error does when it is packed or made again
        named = CorewiseError(f"{type(error).__name__}: {error}")
        named.add_note(error.__notes__[-1])
        return pickle.dumps((None, named))
    return packed
