"""Starts of a live pool in virtual time: the same jobs under EQUI, under what is learned, under the optimum.

All rates are unknown to what learns. Jobs are gangs whose rounds are a tenth of a mean job of their class.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256

import numpy as np

import corewise as cw
from corewise.learning.algorithms import Algorithm
from corewise.live import events as happened
from corewise.live.controller import Controller, Options
from corewise.live.engines.virtual import VirtualEngine, VirtualJob
from corewise.live.solving import Answer, answer
from corewise.policies.base import Policy
from corewise.policies.saved import policy_from_bytes
from corewise.policies.tabular import Tabular

__all__ = ["LOADS", "SYSTEMS", "Solver", "learning", "run", "system_at", "trace"]

CORES = 16
GRAIN = 0.1
SYSTEMS = {"p = .1/.95, mu = 4/1": ((0.1, 0.95), (4.0, 1.0)), "p = .3/.8, mu = 1/1": ((0.3, 0.8), (1.0, 1.0))}
LOADS = (0.4, 0.7)
NEVER = 10**9


def system_at(name: str, load: float) -> cw.System:
    """Return a system of two classes that arrive at the same rate."""
    ps, mus = SYSTEMS[name]
    rate = load * CORES / sum(1.0 / mu for mu in mus)
    named = zip(("one", "two"), ps, mus, strict=True)
    return cw.System(CORES, [cw.JobClass(label, rate, mu, cw.Amdahl(p)) for label, p, mu in named])


def unknown(system: cw.System) -> cw.System:
    """Return what is known of it: its cores, its classes, and the family of its curves."""
    return cw.System(CORES, [cw.JobClass(one.name, None, None, one.speedup) for one in system.classes])


def trace(system: cw.System, rng: np.random.Generator, *, time: float) -> list[VirtualJob]:
    """Return jobs that arrive within a time."""
    jobs: list[VirtualJob] = []
    for known in system.classes:
        assert known.arrival_rate is not None
        assert known.size_rate is not None
        count = int(rng.poisson(known.arrival_rate * time))
        times, sizes = np.sort(rng.uniform(0.0, time, count)), rng.exponential(1.0 / known.size_rate, count)
        pairs = zip(times.tolist(), sizes.tolist(), strict=True)
        jobs += [VirtualJob(at, known.name, size) for at, size in pairs]
    return sorted(jobs, key=lambda job: job.time)


def learning(system: cw.System, departures: int = 50, power: float = 0.5) -> Algorithm:
    """Return how a pool learns by default, with all rates unknown."""
    return cw.adaptive(unknown(system), departures=departures, power=power)


@dataclass
class Solver:
    """Answers what a controller asks, and keeps the policies.

    Attributes
    ----------
    gate : bool
        Whether what a policy is worth is looked at; otherwise all of them pass.
    """

    gate: bool = True
    policies: dict[str, bytes] = field(default_factory=dict)
    answers: list[Answer] = field(default_factory=list)

    def policy(self, digest: str) -> Policy:
        """Return a policy by its digest."""
        return policy_from_bytes(self.policies[digest], digest)

    def __call__(self, controller: Controller, time: float) -> happened.Event:
        """Answer the request of a controller."""
        assert controller.request is not None
        adopted = controller.adopted
        found = answer(controller.question(), None if adopted is None else self.policies[adopted.policy])
        self.answers.append(found)
        digest = sha256(found.policy).hexdigest()
        self.policies[digest] = found.policy
        gain, over_equi, *rest = found.told
        if not self.gate:
            gain = over_equi = (1.0, 1.0, 1.0)
        name = f"answer-{controller.request}"
        return happened.Solved(time, name, controller.request, digest, gain, over_equi, *rest)


def run(
    jobs: Sequence[VirtualJob],
    system: cw.System,
    *,
    algorithm: Algorithm | None = None,
    policy: Tabular | None = None,
    solver: Solver | None = None,
    options: Options | None = None,
    progress: bool = True,
) -> tuple[Mapping[str, list[float]], Controller]:
    """Run jobs under EQUI, a given policy, or what an algorithm learns; return response times by class."""
    how = cw.algorithm_1b(system, departures=NEVER) if algorithm is None else algorithm
    solver = solver or Solver()
    controller = Controller(how, solver.policy, mode="steer", options=options)
    if policy is not None:
        controller._adopt(None, policy)
    curves = {known.name: known.speedup for known in system.classes}
    sizes = {known.name: 1.0 / (known.size_rate or 1.0) for known in system.classes}
    engine = VirtualEngine(
        curves, {name: GRAIN * size for name, size in sizes.items()}, solve=solver, progress=progress
    )
    engine.run(jobs, controller)
    return engine.responses, controller
