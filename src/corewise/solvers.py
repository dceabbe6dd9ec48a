"""Solvers of the average-cost problem, for ``solve(system, solver=…)``; all find the same optimum."""

from corewise.control.solvers import ModifiedPolicyIteration, PolicyIteration, RelativeValueIteration

__all__ = ["ModifiedPolicyIteration", "PolicyIteration", "RelativeValueIteration"]
