"""Worker processes: Ctrl-C, one thread each, calls as bytes, and calls whose worker dies."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from types import ModuleType
from typing import Any

import pytest

from corewise.errors import CorewiseError, InvalidInput
from corewise.kit.workers import (
    LocalProcesses,
    Outcome,
    ReliableCalls,
    WorkerCall,
    carry_out,
    dask_at,
    pack_call,
    processes,
    unpack_answer,
)
from tests.helpers.commands import finish, start

STARTED = """
import signal
from concurrent.futures import ProcessPoolExecutor
from corewise.kit.workers import processes

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
from corewise.kit.workers import processes

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
        "from corewise.kit.workers import processes\n\n"
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


def test_workers_compute_in_one_thread_and_this_process_is_left_alone() -> None:
    before = dict(os.environ)
    with processes(1) as workers:
        assert workers.submit(os.getenv, "OPENBLAS_NUM_THREADS").result() == "1"
        assert set(workers.submit(_threads).result()) == {1}
        assert dict(os.environ) == before


def _threads() -> list[int]:
    import numpy as np
    from threadpoolctl import threadpool_info

    np.ones((2, 2)) @ np.ones((2, 2))
    return [library["num_threads"] for library in threadpool_info()]


def test_the_log_of_dask_is_as_it_was_after_a_connection_that_failed() -> None:
    pytest.importorskip("distributed")
    log = logging.getLogger("distributed")
    before = log.level
    with pytest.raises(CorewiseError, match="no Dask scheduler answers"), dask_at("tcp://127.0.0.1:9"):
        pass
    assert log.level == before


# --- calls whose worker dies ------------------------------------------------------------------------


def outcomes(calls: list[partial[Any]]) -> list[tuple[Outcome, int]]:
    """Return the outcome of each call, and how often its worker died."""
    workers = LocalProcesses(2)
    workers.open()
    try:
        done: SimpleQueue[tuple[WorkerCall, Future[object]]] = SimpleQueue()
        reliable = ReliableCalls[WorkerCall](workers, lambda *one: done.put(one))
        sent = [WorkerCall(call) for call in calls]
        for one in sent:
            reliable.send(one)
        found: dict[WorkerCall, Outcome] = {}
        while len(found) < len(sent):
            task, future = done.get()
            outcome = reliable.settle(task, future)
            if outcome is not None:
                found[task] = outcome
        assert reliable.in_flight == 0
        return [(found[one], one.losses) for one in sent]
    finally:
        workers.close()


def test_a_call_that_kills_its_worker_is_found_and_the_others_are_carried_out() -> None:
    rows = outcomes([partial(pow, 2, 5), partial(os._exit, 1), partial(pow, 3, 2), partial(int, "x")])
    assert [rows[0][0].answer, rows[2][0].answer] == [32, 9]
    assert isinstance(rows[3][0].error, ValueError)
    assert (rows[1][0].lost, rows[1][1]) == (True, 4)
    assert not rows[0][0].lost


# --- calls as bytes ---------------------------------------------------------------------------------


def found(packed: bytes) -> object:
    return unpack_answer(carry_out(packed))


def test_a_call_is_carried_out() -> None:
    assert found(pack_call(partial(pow, 2, 5))) == 32


def test_a_function_of_a_notebook_is_refused_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "__main__", ModuleType("__main__"))
    said = (
        r"Can't get attribute 'work' on .*: put 'work' in a module and import it, or have threads carry out"
    )
    with pytest.raises(InvalidInput, match=said) as raised:
        found(b"c__main__\nwork\n.")
    assert "In the worker:" in raised.value.__notes__[0]


def test_a_function_of_a_script_that_is_defined_only_when_it_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "__mp_main__", ModuleType("__mp_main__"))
    with pytest.raises(
        InvalidInput, match="define 'work' where it is defined also when the script is imported"
    ):
        found(b"c__mp_main__\nwork\n.")


def test_what_cannot_be_imported_is_said_and_what_a_call_raises_is_raised() -> None:
    with pytest.raises(
        InvalidInput, match=r"cannot be read by the process .* No module named 'no_such_module'"
    ):
        found(b"cno_such_module\nwork\n.")
    with pytest.raises(AttributeError, match="no attribute 'work'"):
        found(pack_call(partial(getattr, 1, "work")))
