"""Services that start at once, to be killed often: forked from a process that has imported all they need.

python quick_service.py FOLDER: for every port on stdin a service begins where the last one ended, and says on
stdout its process, its address, and what it begins with. Its solver is a thread; nothing is rehearsed.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from corewise.live.service.desk import open_desk
from corewise.live.service.pool_file import load_pool
from corewise.live.service.server import address_of, listening, make_server
from corewise.live.service.token import Token
from tests.helpers.serving import threads


def serve(folder: Path, port: int) -> None:
    pool, token = load_pool(folder / "pool.toml"), Token.of_file(folder / "pool.db.token")
    with listening("127.0.0.1", port) as socket, open_desk(pool, folder / "pool.db", solver=threads) as desk:
        rows = desk.ask(lambda seen: [[job.name, job.held, job.told, job.target] for job in seen.roster])
        said = {"process": os.getpid(), "address": address_of(socket), "rows": rows}
        os.write(1, f"{json.dumps(said)}\n".encode())
        asyncio.run(make_server(desk, token, socket, "127.0.0.1", pool.limits).serve(sockets=[socket]))


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
