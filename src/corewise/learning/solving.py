"""Solved requests of a live pool: an inference, the policy for it as bytes, and its expected improvement.

`solve_request` is a pure function of values, for a process of its own. A policy is made for the classes that
have left often enough, in whole cores, for the cores that the pool has now, and with the prices of moves
where jobs pause when they are resized.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from corewise.control.priced.priced import solve_priced
from corewise.errors import BoxTooLarge, InvalidPolicy
from corewise.learning.algorithms import Algorithm
from corewise.learning.gate import ExpectedImprovement, expected_improvement
from corewise.learning.learner import MAX_LOAD, Inference, InferenceRequest, infer, with_load_below
from corewise.model.system import System
from corewise.observation.events import Solved
from corewise.policies.base import BoundPolicy, Policy, bind, checked_policy
from corewise.policies.equi import Equi
from corewise.policies.moving.priced import PricedTabular
from corewise.policies.saved import policy_from_bytes, policy_to_bytes
from corewise.policies.scaled import ScaledPolicy, rebind
from corewise.policies.tabular import Tabular
from corewise.policies.whittle import Whittle

__all__ = ["SolveResult", "known_system", "solve_request"]


@dataclass(frozen=True, eq=False)
class SolveResult:
    """Result of a request: the inference, and the policy that was solved for.

    Attributes
    ----------
    inference : Inference
        The inference, with the memory of all windows.
    policy : bytes
        The best policy for it.
    classes : tuple of str
        The classes that the policy and its improvement are for.
    improvement : ExpectedImprovement
        The expected improvement by the policy.
    """

    inference: Inference
    policy: bytes
    classes: tuple[str, ...]
    improvement: ExpectedImprovement

    def event(self, time: float, event_id: str, request: str, digest: str) -> Solved:
        """Return the event that answers a request by this result, whose policy has a digest."""
        found = self.improvement
        return Solved(
            time,
            event_id,
            request,
            digest,
            found.gain,
            found.gain_over_equi,
            found.response_times,
            found.in_force_over_equi,
            self.inference.as_mapping(),
            self.classes,
        )


def solve_request(request: InferenceRequest, in_force: bytes | None) -> SolveResult:
    """Infer from all that was seen, and solve for the best policy of the classes that are known.

    `in_force` is the policy in force, None for EQUI.
    """
    inference = infer(request)
    system = _in_pool(known_system(request, inference), request.cores)
    pauses = dict(
        zip(request.algorithm.system.names, request.pauses, strict=False)
    )  # none before one is known
    policy = _best(request.algorithm, system, [pauses.get(name, 0.0) for name in system.names])
    rival: Policy = Equi()
    if in_force is not None:
        rival = _in_system(policy_from_bytes(in_force, "the policy in force"), system)
    improvement = expected_improvement(request, inference, system, policy, rival)
    return SolveResult(inference, policy_to_bytes(policy), tuple(system.names), improvement)


def known_system(request: InferenceRequest, inference: Inference) -> System:
    """Return the plug-in system of the classes that a policy is to be made for, two or more.

    They are those that have left often enough. Beside others that share equally one class alone does, too: if
    there is no second, the policy is for the classes that have left at all, which shows what there is to
    gain. A rule that names every class needs all of them.
    """
    plug_in = inference.plug_in
    rows = [row for row in inference.classes if not row.too_short]
    found = ([row.name for row in rows if row.departures >= n] for n in (request.min_departures, 1))
    names = next((names for names in found if len(names) > 1), plug_in.names)
    if names == plug_in.names:
        return plug_in
    # Arrivals may have been made fewer for the load of all classes.
    rates = {name: inference.estimated[name].arrival_rate for name in names}
    known = plug_in.with_classes(replace(plug_in[name], arrival_rate=rates[name]) for name in names)
    try:
        checked_policy(request.algorithm.policy or Equi(), known)
    except InvalidPolicy:
        return plug_in
    return with_load_below(known, MAX_LOAD)


def _in_pool(system: System, cores: int | None) -> System:
    """Return a system with the cores of the pool; with fewer arrivals if they are too few for them."""
    if cores is None or cores == system.cores:
        return system
    return with_load_below(System(cores, system.classes, system.changes), MAX_LOAD)


def _in_system(policy: Tabular | PricedTabular | BoundPolicy, system: System) -> Policy:
    """Return a policy in force as it acts in a system: scaled, if that is not the one it was made for."""
    if (policy.system.cores, policy.system.names) == (system.cores, system.names):
        return policy
    return ScaledPolicy(rebind(policy, system))


def _best(
    algorithm: Algorithm, system: System, pauses: Sequence[float]
) -> Tabular | PricedTabular | BoundPolicy:
    """Return the algorithm's rule or the optimum, in whole cores; Whittle's where there are too many states.

    Where jobs pause when they are resized, it is the optimum for free moves with the prices of moves.
    """
    try:
        if algorithm.policy is None and any(pauses):
            return solve_priced(_with_pauses(system, pauses))
        return algorithm.best_policy(system, whole_cores=True)
    except BoxTooLarge:
        return bind(Whittle(), system)


def _with_pauses(system: System, pauses: Sequence[float]) -> System:
    rows = zip(system.classes, pauses, strict=True)
    return system.with_classes([replace(known, resize_pause=pause) for known, pause in rows])
