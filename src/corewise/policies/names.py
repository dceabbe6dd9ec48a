"""The registry of policies by name.

Names are registered by the package that has the policy: `corewise.policies.registered` and
`corewise.control.registered`, both when corewise is imported. So a policy that needs a solver is named where
solvers are. A registered function imports what it needs only when its name is asked for, as this module
imports nothing: `corewise.policies.base.policy_named` reads the registry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from corewise.model.system import System

__all__ = ["NAMES", "SAVED", "Name", "Request", "is_computed", "register"]


class Request(NamedTuple):
    """Request for a policy by name.

    Attributes
    ----------
    argument : str
        The text after the colon.
    system : System
        The system to serve.
    capacity : int or sequence of int, optional
        The box within which the optimum is solved.
    folder : Path, optional
        What a relative path is relative to; by default the current directory.
    """

    argument: str
    system: System
    capacity: int | Sequence[int] | None = None
    folder: Path | None = None


class Name(NamedTuple):
    """Registered name of a policy.

    Attributes
    ----------
    make : callable
        Makes the `Policy`.
    argument : callable, optional
        Describes for a system what has to follow a colon; without it, nothing may.
    optional : bool
        Whether nothing may follow as well, not even the colon.
    computed : bool
        Whether a computation, for the system that it is to serve, is needed to know the policy.
    """

    make: Callable[[Request], Any]
    argument: Callable[[System], str] | None = None
    optional: bool = False
    computed: bool = False


NAMES: dict[str, Name] = {}
"""The registered policies, by the name before a colon."""

SAVED = ":saved"
"""The key of the reader of saved policies, whose argument is their path; no text names it."""


def register(names: Mapping[str, Name]) -> None:
    """Register policies by name."""
    NAMES.update(names)


def is_computed(text: str) -> bool:
    """Return whether a text names a policy that takes a computation for the system that it is to serve."""
    return text in NAMES and NAMES[text].computed
