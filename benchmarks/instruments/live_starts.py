"""Starts of a live pool in virtual time: the same jobs under EQUI, under what is learned, under the optimum.

All rates are unknown to what learns. Jobs are gangs whose rounds are a tenth of a mean job of their class.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256

import numpy as np

import corewise as cw
from benchmarks.instruments.virtual_engine import VirtualEngine, VirtualJob
from corewise.errors import UnstablePolicy
from corewise.estimation.class_estimate import ClassEstimate
from corewise.learning.algorithms import FIRST_WINDOW, Algorithm, live_algorithm
from corewise.learning.gate import ExpectedImprovement
from corewise.learning.learner import MAX_LOAD, Inference, InferenceRequest, infer, with_load_below
from corewise.learning.memories import Memory
from corewise.learning.solving import SolveResult, solve_request
from corewise.live.state.controller import Controller, Options
from corewise.observation import events as happened
from corewise.policies.base import Policy
from corewise.policies.saved import policy_from_bytes, policy_to_bytes
from corewise.policies.tabular import Tabular

__all__ = [
    "LOADS",
    "SYSTEMS",
    "MostLikely",
    "RandomRounds",
    "Solver",
    "believing_all",
    "excesses",
    "learning",
    "mean_response",
    "run",
    "system_at",
    "trace",
]

CORES = 16
GRAIN = 0.1
SYSTEMS = {"p = .1/.95, mu = 4/1": ((0.1, 0.95), (4.0, 1.0)), "p = .3/.8, mu = 1/1": ((0.3, 0.8), (1.0, 1.0))}
LOADS = (0.4, 0.7)
NEVER = 10**9
_SURE = (1.0, 1.0, 1.0)


def system_at(name: str, load: float) -> cw.System:
    """Return a system of two classes that arrive at the same rate."""
    ps, mus = SYSTEMS[name]
    rate = load * CORES / sum(1.0 / mu for mu in mus)
    named = zip(("one", "two"), ps, mus, strict=True)
    return cw.System(CORES, [cw.JobClass(label, rate, mu, cw.Amdahl(p)) for label, p, mu in named])


def unknown(system: cw.System) -> cw.System:
    """Return what is known of it: its cores, its classes, and the family of its curves."""
    return cw.System(CORES, [cw.JobClass(one.name, speedup=one.speedup) for one in system.classes])


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


def learning(system: cw.System, departures: int = FIRST_WINDOW) -> Algorithm:
    """Return how a pool learns by default, with all rates unknown."""
    return live_algorithm(unknown(system), departures)


def believing_all(system: cw.System, departures: int = FIRST_WINDOW) -> Algorithm:
    """Return how a learner with the same windows learns that looks out for no change."""
    return cw.algorithm_1b(unknown(system), departures=departures, power=0.5)


@dataclass
class Solver:
    """Answers what a controller asks, and keeps the policies.

    Attributes
    ----------
    gate : bool
        Whether what a policy is worth is looked at; otherwise all of them are adopted, from the first.
    in_force : list of str or None
        What was in force when each question was asked: the digest of a policy, None for EQUI.
    """

    gate: bool = True
    policies: dict[str, bytes] = field(default_factory=dict)
    in_force: list[str | None] = field(default_factory=list)
    _made: tuple[int, Memory] | None = None

    def policy(self, digest: str) -> Policy:
        """Return a policy by its digest."""
        return policy_from_bytes(self.policies[digest], digest)

    def __call__(self, controller: Controller, time: float) -> happened.Event:
        """Answer the request of a controller."""
        assert controller.request is not None
        if self._made is not None:
            controller.learner.install_memory(*self._made)
        adopted = controller.adopted
        self.in_force.append(None if adopted is None else adopted.policy)
        request = controller.inference_request()
        if self.gate:
            found = solve_request(request, None if adopted is None else self.policies[adopted.policy])
        else:
            inference = self.infer(request)
            policy = policy_to_bytes(cw.solve(inference.plug_in, whole_cores=True).policy)
            names = tuple(request.algorithm.system.names)
            found = SolveResult(inference, policy, names, ExpectedImprovement(_SURE, _SURE))
        self._made = (request.k, request.remembered[0])
        digest = sha256(found.policy).hexdigest()
        self.policies[digest] = found.policy
        return found.event(time, f"answer-{controller.request}", controller.request, digest)

    def infer(self, request: InferenceRequest) -> Inference:
        """Infer from what was seen."""
        return infer(request)


class MostLikely(Solver):
    """Answers as the plainest learner does: curves and size rates at their maximum likelihood, no gate.

    Of departures alone; arrival rates are counts over time, and the load is taken to be .95 at most.
    """

    def __init__(self) -> None:
        super().__init__(gate=False)

    def infer(self, request: InferenceRequest) -> Inference:
        """Return what is most likely."""
        found = cw.estimate(request.seen, request.algorithm.system, sizes="exponential")
        system = found.applied_to(request.state.estimated)
        plug_in = with_load_below(system, MAX_LOAD)
        return Inference(tuple(ClassEstimate.of(row) for row in found.values()), system, plug_in)


def excesses(system: cw.System, solver: Solver, controller: Controller) -> list[float]:
    """Return the exact mean cost over that of EQUI, less one, of what was in force after each window."""
    equi = cw.evaluate(system, "equi").mean_cost
    adopted = controller.adopted
    last = None if adopted is None else adopted.policy
    costs: dict[str | None, float] = {None: equi}
    for digest in {*solver.in_force, last} - {None}:
        assert digest is not None
        try:
            costs[digest] = cw.evaluate(system, solver.policy(digest)).mean_cost
        except UnstablePolicy:
            costs[digest] = math.inf
    return [costs[digest] / equi - 1.0 for digest in (*solver.in_force[1:], last)]


class RandomRounds(VirtualEngine):
    """Virtual engine with rounds of exponential size, each of which is told as one."""

    rng: np.random.Generator

    def _round(self, job_class: str) -> float:
        return float(self.rng.exponential(super()._round(job_class)))

    def _mark(self, job_class: str, work: float) -> float:  # noqa: ARG002
        return 1.0


def mean_response(responses: Mapping[str, list[float]]) -> float:
    """Return the mean response time of all jobs."""
    return float(np.mean([time for times in responses.values() for time in times]))


def run(
    jobs: Sequence[VirtualJob],
    system: cw.System,
    *,
    algorithm: Algorithm | None = None,
    policy: Tabular | None = None,
    solver: Solver | None = None,
    round_sizes: np.random.Generator | None = None,
    progress: bool = True,
) -> tuple[Mapping[str, list[float]], Controller]:
    """Run jobs under EQUI, a given policy, or what an algorithm learns; return response times by class.

    Rounds are of one size, or drawn.
    """
    how = cw.algorithm_1b(system, departures=NEVER) if algorithm is None else algorithm
    solver = solver or Solver()
    options = Options() if solver.gate else Options(least_seen=0)
    controller = Controller(how, solver.policy, mode="steer", options=options)
    if policy is not None:
        controller._adopt(None, policy)
    curves = {known.name: known.speedup for known in system.classes}
    sizes = {known.name: 1.0 / (known.size_rate or 1.0) for known in system.classes}
    grains = {name: GRAIN * size for name, size in sizes.items()}
    engine = VirtualEngine(curves, grains, solve=solver, progress=progress)
    if round_sizes is not None:
        engine = RandomRounds(curves, grains, solve=solver, progress=True)
        engine.rng = round_sizes
    engine.run(jobs, controller)
    return engine.responses, controller
