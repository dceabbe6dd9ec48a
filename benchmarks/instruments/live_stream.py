"""What a live pool is told in a virtual hour: a stream of events to journal, replay and be killed over.

Gangs of two classes under a controller that learns. Between the engine's events come such as a careless
sender sends: of jobs that are not there, with a clock that went back, of a class that nobody knows.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

import corewise as cw
from benchmarks.instruments.virtual_engine import VirtualEngine, VirtualJob
from corewise.learning.learner import infer
from corewise.live.state.controller import Controller, Options
from corewise.live.state.instructions import Instruction, instruction_to_mapping
from corewise.model.files import system_to_mapping
from corewise.observation import events as happened
from corewise.policies.base import Policy

__all__ = ["ABOUT", "SYSTEM", "new_controller", "policy_of", "stream", "told_of"]

SYSTEM = cw.System(
    16,
    [
        cw.JobClass("small", 4.0, 4.0, cw.Amdahl(0.1)),
        cw.JobClass("large", 2.0, 1.0, cw.Amdahl(0.95)),
    ],
)
ABOUT: dict[str, Any] = {"system": system_to_mapping(SYSTEM), "algorithm": "1b"}


def policy_of(digest: str) -> Policy:
    return cw.Priority(digest.split("-"))


def new_controller(snapshot: bytes | None = None) -> Controller:
    """Return a controller that has seen nothing, or that of a snapshot."""
    how, options = cw.algorithm_1b(SYSTEM, departures=40), Options(least_seen=20)
    if snapshot is not None:
        return Controller.of(snapshot, how, policy_of, options)
    return Controller(how, policy_of, mode="steer", options=options)


class _Spy:
    """A controller, and what it is told."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.controller, self.told, self._rng = new_controller(), list[happened.Event](), rng

    def handle(self, event: happened.Event) -> list[Instruction]:
        self.told.append(event)
        instructions = self.controller.handle(event)
        chance, name = self._rng.random(), f"careless-{len(self.told)}"
        if chance < 0.02:
            self.told.append(happened.JobFinished(event.time, name, "nobody"))
        elif chance < 0.04:
            self.told.append(happened.JobArrived(event.time, name, name, "medium"))
        elif chance < 0.06:
            self.told.append(happened.Tick(event.time - 1.0, name))
        return instructions

    def answer(self, _: object, time: float) -> happened.Event:
        assert self.controller.request is not None
        request = self.controller.request
        digest = "small-large" if int(request) % 2 else "large-small"
        inference = infer(self.controller.inference_request())
        gain = (0.1, 0.2, 0.3)
        return happened.Solved(
            time, f"answer-{request}", request, digest, gain, gain, learned=inference.as_mapping()
        )


def stream(jobs: int, seed: int) -> list[happened.Event]:
    """Return what a controller is told while so many jobs come and go."""
    rng = np.random.default_rng(seed)
    spy = _Spy(rng)
    times = np.cumsum(rng.exponential(1.0 / 6.0, jobs))
    kinds = np.where(rng.random(jobs) < 2.0 / 3.0, "small", "large")
    sizes = rng.exponential(np.where(kinds == "small", 0.25, 1.0))
    work = [VirtualJob(float(t), str(k), float(s)) for t, k, s in zip(times, kinds, sizes, strict=True)]
    curves = {job_class.name: job_class.speedup for job_class in SYSTEM.classes}
    engine = VirtualEngine(curves, 0.25, pause=0.01, solve=spy.answer, solve_time=0.5, progress=True)
    engine.run(work, spy)  # type: ignore[arg-type]  # it needs no more than `handle`
    return spy.told


def told_of(instructions: list[Instruction] | tuple[Instruction, ...]) -> list[dict[str, Any]]:
    """Return instructions as a journal gives them back."""
    plain: list[dict[str, Any]] = json.loads(
        json.dumps([instruction_to_mapping(one) for one in instructions])
    )
    return plain
