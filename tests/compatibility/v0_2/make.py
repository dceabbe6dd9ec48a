"""Writes a journal as version 0.2 wrote it; run with that version, in this folder."""

# mypy: ignore-errors
from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import corewise as cw
from corewise.learning.algorithms import live_algorithm
from corewise.learning.solving import solve_request
from corewise.live.journal.journal import Journal
from corewise.live.journal.pool_configuration import about_pool
from corewise.live.state.controller import Controller, Options
from corewise.observation import events as happened
from corewise.policies.saved import policy_from_bytes

SYSTEM = cw.System(8, [cw.JobClass(name, None, None, cw.Amdahl(0.5)) for name in ("one", "two")])
OPTIONS = Options(least_seen=5, patience=30.0, late_moves=True)
OPENED = 1_790_000_000.0


def main() -> None:
    rng = random.Random(2)
    path = Path("pool.db")
    path.unlink(missing_ok=True)
    algorithm = live_algorithm(SYSTEM, 20)
    with Journal.open(path, {**about_pool(algorithm, OPTIONS), "opened": OPENED}) as journal:
        controller = Controller(
            algorithm,
            lambda digest: policy_from_bytes(journal.policy(digest), digest),
            mode="steer",
            time=OPENED,
            options=OPTIONS,
        )
        controller.mode = "watch"
        time, ids = OPENED, iter(range(10_000))

        def tell(kind: Callable[..., happened.Event], *values: object) -> None:
            event = kind(time, f"e{next(ids)}", *values)
            (number,) = journal.append([event], received=time)
            instructions = controller.handle(event)
            journal.record(number, instructions)
            for instruction in instructions:
                if instruction.kind == "solve":
                    found = solve_request(controller.inference_request(), None)
                    tell(found.event, instruction.request, journal.put_policy(found.policy))
            if number == 150:
                journal.put_snapshot(number, controller.snapshot())

        tell(happened.ModeChanged, "steer")
        for k in range(60):
            time += rng.expovariate(1.0)
            name = f"job-{k}"
            tell(happened.JobArrived, name, rng.choice(["one", "two"]))
            for cores in rng.sample([1, 2, 4], 2):
                tell(happened.CoresHeld, name, cores)
                time += rng.expovariate(1.0)
            if k < 57:
                tell(happened.JobFinished, name)


if __name__ == "__main__":
    main()
