"""How a policy is named on the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from corewise.model.system import System
    from corewise.policies.base import Policy

__all__ = ["HELP", "parse_policy"]

HELP = "equi, greedy, whittle, improved, optimal, fixed:0.5,0.5, priority:two,one, or a saved policy file."


def parse_policy(text: str, system: System, *, capacity: int | list[int] | None = None) -> Policy:
    """Return the policy that a text names; see `corewise.policies.names`."""
    from corewise.policies.names import policy_named

    return policy_named(text, system, capacity=capacity)
