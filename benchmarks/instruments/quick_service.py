"""A service that starts at once, since its solver is a thread and nothing is rehearsed: to be killed often.

python quick_service.py FOLDER PORT: prints its address, and its allocation before the first request.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from corewise.live.service.desk import open_desk
from corewise.live.service.pool_file import load_pool
from corewise.live.service.server import address_of, listening, make_server
from corewise.live.service.token import Token
from tests.helpers.serving import threads


def main() -> None:
    folder, port = Path(sys.argv[1]), int(sys.argv[2])
    pool, token = load_pool(folder / "pool.toml"), Token.of_file(folder / "pool.db.token")
    with listening("127.0.0.1", port) as socket, open_desk(pool, folder / "pool.db", solver=threads) as desk:
        rows = desk.ask(lambda seen: [[job.name, job.held, job.told, job.target] for job in seen.roster])
        print(address_of(socket), json.dumps(rows), sep="\n", flush=True)
        asyncio.run(make_server(desk, token, socket, "127.0.0.1", pool.limits).serve(sockets=[socket]))


if __name__ == "__main__":
    main()
