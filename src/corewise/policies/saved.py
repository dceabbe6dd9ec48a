"""Saved policies, as bytes and as files: a table, fitted values, or the name of a rule, each with its system.

All are archives; no code is run to read one, and the same policy has the same bytes. A table needs a box over
all classes, so with many of them a policy is kept as what it is made of instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corewise.errors import InvalidFile, InvalidPolicy
from corewise.kit.archive import packed, unpacked, usable
from corewise.kit.arrays import Floats
from corewise.kit.files import read_bytes, write_bytes
from corewise.model.files import system_from_mapping, system_to_mapping
from corewise.model.system import System
from corewise.policies.base import BoundPolicy, bind, policy_named
from corewise.policies.decisions import StateTable
from corewise.policies.fitted.rule import Fitted
from corewise.policies.fitted.values import FittedValues
from corewise.policies.jobs.levels import JobLevels
from corewise.policies.moving.priced import PricedTabular
from corewise.policies.moving.rule import Widths
from corewise.policies.tabular import Tabular
from corewise.policies.whole import Rounded, WholeCores

__all__ = ["load_policy", "policy_from_bytes", "policy_to_bytes", "save_policy"]

_RULE, _FITTED = "corewise rule 1", "corewise fitted policy 1"
_RULES = ("equi", "greedy", "whittle", "job-index", "fixed", "priority")


def save_policy(policy: Tabular | PricedTabular | BoundPolicy, path: str | Path) -> None:
    """Write a policy and the system it was made for to a file, for any number of classes.

    Raises
    ------
    InvalidPolicy
        If it is neither a table nor made of a rule that has a name, nor of fitted values.
    """
    write_bytes(path, policy_to_bytes(policy))


def load_policy(path: str | Path) -> Tabular | PricedTabular | BoundPolicy:
    """Read a policy that `save_policy`, or `Tabular.save`, has written."""
    return policy_from_bytes(read_bytes(path), str(path))


def policy_to_bytes(policy: Tabular | PricedTabular | BoundPolicy) -> bytes:
    """Return the bytes of a table, of fitted values, or of a rule that is all in its name and its system."""
    if isinstance(policy, Tabular | PricedTabular):
        return policy.to_bytes()
    decision = policy.decision.by_counts
    if isinstance(decision, StateTable):
        widths = policy.decision.part(Widths)
        if widths is not None and widths.rule.tables is not None:
            base = Tabular(policy.system, decision.cores, True, "optimal")
            return PricedTabular(base, widths.rule.tables).to_bytes()
        whole = bool(np.all(decision.cores == np.rint(decision.cores)))
        return Tabular(policy.system, decision.cores, whole, policy.name).to_bytes()
    rounded = isinstance(decision, Rounded)
    inner = decision.policy if isinstance(decision, Rounded) else policy
    about: dict[str, Any] = {"rule": inner.name, "system": system_to_mapping(inner.system)}
    if rounded:
        about["whole_cores"] = True
    fitted = inner.decision.by_counts
    if isinstance(fitted, Fitted):
        return packed(inner.name, _FITTED, about, _arrays(fitted))
    # What sets out to improve on Whittle may end as Whittle, under its own name.
    rule = "whittle" if inner.name == "improved" else inner.name
    again = _rule(rule, inner.system)
    if not _alike(inner, again):
        raise InvalidPolicy(f"policy {inner.name!r} cannot be kept: there is more to it than its name tells")
    return packed(inner.name, _RULE, {**about, "rule": rule}, {})


def policy_from_bytes(content: bytes, name: str) -> Tabular | PricedTabular | BoundPolicy:
    """Return the policy that `policy_to_bytes` has written; `name` is what to call it in errors."""
    for kind in (_RULE, _FITTED):
        try:
            about, arrays = unpacked(name, content, kind, "saved policy")
        except InvalidFile:
            continue
        with usable(name, "policy"):
            system = system_from_mapping(about["system"])
            rule = _rule(about["rule"], system) if kind == _RULE else _fitted(system, about, arrays)
            return bind(WholeCores(rule), system) if about.get("whole_cores") else rule
    try:
        return PricedTabular.from_bytes(content, name)
    except InvalidFile:
        return Tabular.from_bytes(content, name)


def _arrays(rule: Fitted) -> dict[str, Floats]:
    values = {field.name: getattr(rule.values, field.name) for field in fields(rule.values)}
    return {"limits": rule.limits, **values}


def _fitted(system: System, about: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> BoundPolicy:
    values = FittedValues(**{field.name: arrays[field.name] for field in fields(FittedValues)})
    classes, own, whole = len(system.classes), len(values.shapes), len(values.functions)
    expected = ((own, 2), (2, classes, own), (whole, 3), (whole, classes), (len(values.products), 2, classes))
    # Kernels trust the shapes.
    if tuple(array.shape for array in values.arrays) != expected:
        raise InvalidFile(f"its coefficients are not for {classes} classes")
    return BoundPolicy(system, str(about["rule"]), Fitted(system, values, arrays["limits"]))


def _rule(text: str, system: System) -> BoundPolicy:
    if text.partition(":")[0] not in _RULES:
        raise InvalidPolicy(f"policy {text!r} cannot be kept: neither a table nor one of {', '.join(_RULES)}")
    return bind(policy_named(text, system), system)


def _alike(policy: BoundPolicy, other: BoundPolicy) -> bool:
    """Return whether two policies decide alike: by the same numbers per job, and the same in a few states."""
    jobs, others = policy.decision.part(JobLevels), other.decision.part(JobLevels)
    if jobs is not None and others is not None and jobs.settings != others.settings:
        return False
    return (jobs is None) == (others is None) and np.array_equal(
        _in_a_few_states(policy), _in_a_few_states(other)
    )


def _in_a_few_states(policy: BoundPolicy) -> Floats:
    classes = len(policy.system.classes)
    return policy.allocate([[1] * classes, list(range(classes)), [3] * classes])
