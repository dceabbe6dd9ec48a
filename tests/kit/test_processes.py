"""Worker processes: how they begin and end when somebody presses Ctrl-C."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.helpers.commands import finish, start

STARTED = """
import signal
from concurrent.futures import ProcessPoolExecutor
from corewise.kit.processes import processes

real = ProcessPoolExecutor.submit

def submit(*arguments, **named):
    signal.raise_signal(signal.SIGINT)
    future = real(*arguments, **named)
    print("started", flush=True)
    return future

if __name__ == "__main__":
    ProcessPoolExecutor.submit = submit
    try:
        with processes(1):
            print("went on")
    except KeyboardInterrupt:
        print("interrupted")
"""

ABANDONED = """
import time
from concurrent.futures import ProcessPoolExecutor
from corewise.kit.processes import processes

real = ProcessPoolExecutor.shutdown

def shutdown(*arguments, **named):
    time.sleep(0.5)  # a busy machine
    real(*arguments, **named)

if __name__ == "__main__":
    ProcessPoolExecutor.shutdown = shutdown
    try:
        with processes(2) as workers:
            calls = [workers.submit(time.sleep, 60) for _ in range(20)]
            while not calls[2].running():  # as many as are handed on; the others wait
                time.sleep(0.01)
            for call in calls:
                call.cancel()
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        print("ended")
"""


def said(script: str, folder: Path, *, hears: bool = True) -> tuple[str, str]:
    file = folder / "script.py"
    file.write_text(script)
    with start(str(file), hears=hears, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        out, err = finish(process)
    return out, err


def test_an_interrupt_waits_until_a_worker_is_started(tmp_path: Path) -> None:
    """One that was told by halves what to do would say so."""
    assert said(STARTED, tmp_path) == ("started\ninterrupted\n", "")


def test_an_interrupt_that_is_ignored_stays_so(tmp_path: Path) -> None:
    assert said(STARTED, tmp_path, hears=False) == ("started\nwent on\n", "")


def test_workers_end_without_a_word(tmp_path: Path) -> None:
    assert said(ABANDONED, tmp_path) == ("ended\n", "")


def test_a_script_from_standard_input_is_told_to_be_run_from_a_file(tmp_path: Path) -> None:
    """Workers import the script that starts them, guarded or not."""
    file = tmp_path / "script.py"
    file.write_text(
        "from corewise.kit.processes import processes\n\n"
        'if __name__ == "__main__":\n    with processes(1):\n        print("alive")\n'
    )
    with file.open() as script:
        process = start("-", stdin=script, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        with process:
            out, err = finish(process)
    assert out == ""
    assert err.rstrip().endswith("and <stdin> cannot be: run it from a file")
    with start(str(file), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert finish(process) == ("alive\n", "")
