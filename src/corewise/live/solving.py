"""Requests to solve, answered in a process of their own: a policy as the bytes of its file."""

from __future__ import annotations

from corewise.control.solution import solve
from corewise.learning.learner import SolveRequest
from corewise.model.speedup import Amdahl
from corewise.model.system import JobClass, System

__all__ = ["Answer", "answer", "warm_up"]

Gain = tuple[float, float, float]
Answer = tuple[bytes, Gain, Gain]
"""A policy, what is gained by it over the one in force, and what over EQUI."""


def answer(asked: SolveRequest, in_force: bytes | None) -> Answer:  # noqa: ARG001
    """Return the best policy for what is believed, and what it is worth; `in_force` is None for EQUI."""
    policy = solve(asked.system, whole_cores=True).policy
    return policy.to_bytes(), (1.0, 1.0, 1.0), (1.0, 1.0, 1.0)


def warm_up() -> None:
    """Compile or load whatever an answer needs."""
    classes = [JobClass(name, 0.5, 1.0, Amdahl(p)) for name, p in (("one", 0.3), ("two", 0.8))]
    solve(System(2, classes), whole_cores=True)
