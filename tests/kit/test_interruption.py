"""Long calls that Ctrl-C does not wait for."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest

from corewise.kit.interruption import interruptible

STUCK = """
import ctypes, sys
from corewise.kit.interruption import interruptible

libc = ctypes.CDLL(None)  # its calls let go of the interpreter, as a factorisation does
try:
    interruptible(lambda: (print("begun", flush=True), libc.sleep(600)))
except KeyboardInterrupt:
    sys.exit(130)
"""


def test_what_is_returned_and_raised() -> None:
    """As if it had been called, but in another thread."""
    here = threading.get_ident()
    assert interruptible(threading.get_ident) != here
    with pytest.raises(ZeroDivisionError):
        interruptible(lambda: 1 // 0)


@pytest.mark.skipif(os.name != "posix", reason="signals of another kind")
def test_ctrl_c_does_not_wait() -> None:
    """The call would take ten minutes."""
    heeded = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    with subprocess.Popen(
        [sys.executable, "-c", heeded + STUCK], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=300) == 130
