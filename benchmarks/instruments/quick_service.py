"""Services that start at once, to be killed often: forked from a process that has imported all they need.

python quick_service.py FOLDER: for every port on stdin a service begins where the last one ended, and says on
stdout its process, its address, and what it begins with. Its solver is a thread; nothing is rehearsed.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.helpers.serving import quickly_opened


def serve(folder: Path, port: int) -> None:
    with quickly_opened(folder, port=port) as service:
        rows = service.runtime.runner.ask(
            lambda seen: [[job.name, job.held, job.assigned, job.target] for job in seen.jobs]
        )
        said = {"process": os.getpid(), "address": service.address, "rows": rows}
        os.write(1, f"{json.dumps(said)}\n".encode())
        service.run()


def main() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        if not os.fork():
            try:
                serve(Path(sys.argv[1]), int(line))
            finally:
                os._exit(0)


if __name__ == "__main__":
    main()
