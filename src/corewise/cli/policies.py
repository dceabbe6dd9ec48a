"""How a policy is named on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from corewise.errors import InvalidPolicy, nearest

if TYPE_CHECKING:
    from corewise.model.system import System
    from corewise.policies.base import Policy

__all__ = ["HELP", "parse_policy"]

HELP = "equi, greedy, whittle, optimal, fixed:0.5,0.5, priority:two,one, or a saved policy file."

_KNOWN = ["equi", "greedy", "whittle", "optimal", "fixed", "priority"]


def parse_policy(text: str, system: System, *, capacity: int | list[int] | None = None) -> Policy:
    """Return the policy that a text names.

    Parameters
    ----------
    text : str
        ``equi``, ``greedy``, ``whittle``, ``optimal``, ``fixed:SHARE,SHARE,…`` (in class order),
        ``priority:NAME,NAME,…`` (first to last), or the path of a saved policy.
    system : System
        The system to serve; ``optimal`` is solved for it.
    capacity : int or list of int, optional
        The box within which ``optimal`` is solved.
    """
    from corewise.policies.equi import Equi
    from corewise.policies.greedy import Greedy
    from corewise.policies.whittle import Whittle

    match text.partition(":"):
        case ("equi", "", _):
            return Equi()
        case ("greedy", "", _):
            return Greedy()
        case ("whittle", "", _):
            return Whittle()
        case ("optimal", "", _):
            from corewise.control.solution import solve

            return solve(system, capacity=capacity).policy
        case ("fixed", ":", shares):
            return _fixed(shares)
        case ("priority", ":", names):
            from corewise.policies.priority import Priority

            return Priority([name.strip() for name in names.split(",")])
    return _saved(text, system)


def _fixed(shares: str) -> Policy:
    from corewise.policies.fixed import Fixed

    values = []
    for share in shares.split(","):
        try:
            values.append(float(share))
        except ValueError:
            raise InvalidPolicy(f"fixed:{shares}: every share must be a number, got {share!r}") from None
    return Fixed(values)


def _saved(text: str, system: System) -> Policy:
    kind, colon, _ = text.partition(":")
    meant_as_path = "/" in text or (Path(text).suffix and not colon)
    if text and (meant_as_path or Path(text).exists()):
        from corewise.policies.tabular import Tabular

        saved = Tabular.load(Path(text))
        try:
            saved.on(system)
        except InvalidPolicy as error:
            raise InvalidPolicy(f"{text}: {error}") from None
        return saved
    if kind == "fixed":
        share = 1.0 / len(system.classes)
        example = ",".join(f"{share:.3g}" for _ in system.classes)
        raise InvalidPolicy(f"policy {text!r} needs a share for each class, such as fixed:{example}")
    if kind == "priority":
        raise InvalidPolicy(f"policy {text!r} needs an order, such as priority:{','.join(system.names)}")
    if kind in _KNOWN:
        raise InvalidPolicy(f"policy {text!r}: {kind} takes nothing after a colon")
    raise InvalidPolicy(f"unknown policy {text!r}, nor is it a file{nearest(kind.lower(), _KNOWN)}")
