"""The command line as a process of its own, which can be interrupted."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from typing import Any

PATIENCE = 300.0
"""Seconds, on a busy machine: longer than anything takes, so that a test that fails does not hang."""


def start(*arguments: str, hears: bool = True, **options: Any) -> subprocess.Popen[Any]:
    """Start Python with these arguments, as a process that hears of Ctrl-C or does not.

    What is started where Ctrl-C is ignored, such as in the background of a script, ignores it as well: also
    this process may be such a one, and its children are not to depend on it.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler if hears else signal.SIG_IGN)
    try:
        return subprocess.Popen([sys.executable, *arguments], **options)
    finally:
        signal.signal(signal.SIGINT, before)


def finish(process: subprocess.Popen[Any]) -> tuple[Any, Any]:
    """Return what a process says on stdout and stderr to its end, which is made if it does not come."""
    try:
        return process.communicate(timeout=PATIENCE)
    finally:
        process.kill()


def on_a_terminal(arguments: list[str], until: bytes, *, again: bool = False) -> tuple[bytes, bytes, int]:
    """Run a command with stderr on a terminal, and press Ctrl-C once a pattern is shown, or from then on.

    Returns what it said on stderr and on stdout, and its exit code.
    """
    terminal, end = pty.openpty()
    environment = {**os.environ, "COLUMNS": "120", "TERM": "xterm"}
    command = ("-m", "corewise", *arguments)
    with start(*command, stdout=subprocess.PIPE, stderr=end, env=environment) as process:
        os.close(end)
        shown, interrupted, began = b"", False, time.monotonic()
        while time.monotonic() - began < PATIENCE:
            if select.select([terminal], [], [], 0.05)[0]:
                piece = _read(terminal)
                if not piece:
                    break
                shown += piece
            if (again or not interrupted) and re.search(until, shown):
                process.send_signal(signal.SIGINT)
                interrupted = True
        else:
            process.kill()
        out, _ = finish(process)
    os.close(terminal)
    assert interrupted, shown
    return shown, out, process.returncode


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # what Linux says when the other end has closed
        return b""
