"""Policies as bytes, for a journal: a table with its system, or the name of a rule with its system.

Both are archives as saved policies are; no code is run to read one, and the same policy has the same bytes.
"""

from __future__ import annotations

import numpy as np

from corewise.errors import InvalidFile, InvalidPolicy
from corewise.kit.archive import packed, unpacked, usable
from corewise.kit.arrays import Floats
from corewise.model.files import system_from_mapping, system_to_mapping
from corewise.model.system import System
from corewise.policies.base import BoundPolicy, bind
from corewise.policies.names import policy_named
from corewise.policies.tabular import Tabular

__all__ = ["policy_from_bytes", "policy_to_bytes"]

_FORMAT = "corewise rule 1"
_RULES = ("equi", "greedy", "whittle", "fixed", "priority")


def policy_to_bytes(policy: Tabular | BoundPolicy) -> bytes:
    """Return the bytes of a table, or of a rule that is all in its name and its system."""
    if isinstance(policy, Tabular):
        return policy.to_bytes()
    about = {"rule": policy.name, "system": system_to_mapping(policy.system)}
    if not np.array_equal(_with_one_job_each(policy), _with_one_job_each(_rule(policy.name, policy.system))):
        raise InvalidPolicy(f"policy {policy.name!r} cannot be kept: there is more to it than its name tells")
    return packed(policy.name, _FORMAT, about, {})


def policy_from_bytes(content: bytes, name: str) -> Tabular | BoundPolicy:
    """Return the policy that `policy_to_bytes` has written; `name` is what to call it in errors."""
    try:
        about, _ = unpacked(name, content, _FORMAT, "kept policy")
    except InvalidFile:
        return Tabular.from_bytes(content, name)
    with usable(name, "policy"):
        return _rule(about["rule"], system_from_mapping(about["system"]))


def _rule(text: str, system: System) -> BoundPolicy:
    if text.partition(":")[0] not in _RULES:
        raise InvalidPolicy(f"policy {text!r} cannot be kept: neither a table nor one of {', '.join(_RULES)}")
    return bind(policy_named(text, system), system)


def _with_one_job_each(policy: BoundPolicy) -> Floats:
    return policy.allocate(np.ones(len(policy.system.classes), dtype=np.int64))
