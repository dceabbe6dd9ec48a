"""Programs of the documents: each a process of its own, forked from one that has imported what all import.

To import corewise and what it needs takes a second, and the documents have dozens of programs. A program is
run as ``python -W error program.py`` runs it: it is `__main__`, its folder is the first place where modules
are looked for, and processes that it starts import its file.
"""

from __future__ import annotations

import atexit
import json
import os
import runpy
import subprocess
import sys
import threading
import traceback
from functools import cache
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).parents[2]


def run_program(file: Path, surroundings: dict[str, str]) -> tuple[int, str, str]:
    """Run a program in its folder; return its exit code, what it prints, and what it says on stderr."""
    server = _server()
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write(json.dumps([str(file.resolve()), dict(os.environ) | surroundings]) + "\n")
    server.stdin.flush()
    code = int(server.stdout.readline())
    printed, said = (file.with_suffix(suffix).read_text(encoding="utf-8") for suffix in (".out", ".err"))
    return code, printed, said


@cache
def _server() -> subprocess.Popen[str]:
    """Return the process that programs are forked from; it ends with this one."""
    server = subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "tests.helpers.programs"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    atexit.register(_end, server)
    return server


def _end(server: subprocess.Popen[str]) -> None:
    server.communicate()


def _serve() -> None:
    """Fork a program for every line on standard input, and write its exit code."""
    import numba  # noqa: F401
    import scipy.optimize
    import scipy.special  # noqa: F401

    import corewise.live.run.pool
    import corewise.studies.compare  # noqa: F401

    for line in sys.stdin:
        file, environment = json.loads(line)
        child = os.fork()
        if child == 0:
            _run(Path(file), environment)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _run(file: Path, environment: dict[str, str]) -> NoReturn:
    """Be the program, and end."""
    for number, suffix in ((1, ".out"), (2, ".err")):
        opened = os.open(file.with_suffix(suffix), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(opened, number)
        os.close(opened)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sys.stdout, sys.stderr = (os.fdopen(number, "w", encoding="utf-8", closefd=False) for number in (1, 2))
    os.chdir(file.parent)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[0] = str(file.parent)
    sys.argv = [str(file)]
    code = 0
    try:
        runpy.run_path(str(file), run_name="__main__")
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    _serve()
