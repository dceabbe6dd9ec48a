"""Policies by name: wherever a policy is taken, on the command line and in sweep files.

Two names stand for policies that are computed, in rooms above this one; these are loaded when they are asked
for, as a plug-in would be.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path

from corewise.errors import InvalidPolicy, nearest
from corewise.model.system import System
from corewise.policies.base import BoundPolicy, Policy
from corewise.policies.equi import Equi
from corewise.policies.fixed import Fixed
from corewise.policies.greedy import Greedy
from corewise.policies.priority import Priority
from corewise.policies.tabular import Tabular
from corewise.policies.whittle import Whittle
from corewise.policies.whole import WholeCores

__all__ = ["COMPUTED", "policy_named"]

COMPUTED = {
    "optimal": ("corewise.control.optimal", "Optimal"),
    "improved": ("corewise.control.improve.improved", "Improved"),
    "residual": ("corewise.control.residual", "Residual"),
    "priced": ("corewise.control.priced.priced", "Priced"),
    "held": ("corewise.policies.moving.held", "Held"),
}
"""The names of policies that take a computation for the system they are to serve, and where they are made."""

_SIMPLE: dict[str, Callable[[], Policy]] = {"equi": Equi, "greedy": Greedy, "whittle": Whittle}

_SAVED = "corewise.policies.saved"  # it makes rules by their names, and so comes after them

_KNOWN = ["equi", "greedy", "whittle", *COMPUTED, "fixed", "priority", "whole"]


def policy_named(
    text: str, system: System, *, capacity: int | Sequence[int] | None = None, folder: Path | None = None
) -> Policy:
    """Return the policy that a text names.

    Parameters
    ----------
    text : str
        ``equi``, ``greedy``, ``whittle``, ``improved``, ``optimal``, ``residual``, ``priced``, ``held``,
        ``fixed:SHARE,SHARE,…`` (in class order), ``priority:NAME,NAME,…`` (first to last), ``whole:P`` (any
        of them, rounded to whole cores), or the path of a saved policy.
    system : System
        The system to serve.
    capacity : int or sequence of int, optional
        The box within which ``optimal`` is solved.
    folder : Path, optional
        What a relative path is relative to; by default the current directory.
    """
    kind, colon, rest = text.partition(":")
    if kind == "whole" and rest:
        return WholeCores(policy_named(rest, system, capacity=capacity, folder=folder))
    match kind, colon, rest:
        case ("equi" | "greedy" | "whittle", "", _):
            return _SIMPLE[text]()
        case ("improved" | "residual" | "priced" | "held", "", _):
            return _computed(text)
        case ("optimal", "", _):
            return _computed(text, capacity=capacity)
        case ("fixed", ":", shares):
            return _fixed(shares)
        case ("priority", ":", names):
            return Priority([name.strip() for name in names.split(",")])
    return _saved(text, system, folder or Path())


def _computed(name: str, **options: object) -> Policy:
    module, rule = COMPUTED[name]
    policy: Policy = getattr(import_module(module), rule)(**options)
    return policy


def _fixed(shares: str) -> Policy:
    values = []
    for share in shares.split(","):
        try:
            values.append(float(share))
        except ValueError:
            raise InvalidPolicy(f"fixed:{shares}: every share must be a number, got {share!r}") from None
    return Fixed(values)


def _saved(text: str, system: System, folder: Path) -> Policy:
    saved: Tabular | BoundPolicy
    kind, colon, _ = text.partition(":")
    meant_as_path = "/" in text or (Path(text).suffix and not colon)
    if text and (meant_as_path or (folder / text).exists()):
        saved = import_module(_SAVED).load_policy(folder / text)
        try:
            saved.require_fit(system)
        except InvalidPolicy as error:
            raise InvalidPolicy(f"{text}: {error}") from None
        return saved
    if kind == "fixed":
        share = 1.0 / len(system.classes)
        example = ",".join(f"{share:.3g}" for _ in system.classes)
        raise InvalidPolicy(f"policy {text!r} needs a share for each class, such as fixed:{example}")
    if kind == "whole":
        raise InvalidPolicy(f"policy {text!r} needs the policy to round, such as whole:whittle")
    if kind == "priority":
        raise InvalidPolicy(f"policy {text!r} needs an order, such as priority:{','.join(system.names)}")
    if kind in _KNOWN:
        raise InvalidPolicy(f"policy {text!r}: {kind} takes nothing after a colon")
    raise InvalidPolicy(f"unknown policy {text!r}, nor is it a file{nearest(kind.lower(), _KNOWN)}")
