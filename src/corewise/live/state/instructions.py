"""Instructions of a live controller: what is to be done now, as values that a journal and a wire can hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

__all__ = ["Alert", "Instruction", "Reason", "SetCores", "Solve", "instruction_to_mapping"]


@dataclass(frozen=True, slots=True)
class Reason:
    """Reason for the cores of a job: the state they were decided in, and what decided.

    Attributes
    ----------
    counts : tuple of int
        The jobs of each class then.
    cores : tuple of int
        The whole cores that the policy gave to each class.
    policy : str
        The policy in force.
    mode : str
        The mode of the controller then; a journal and the wire call it ``rule``.
    """

    counts: tuple[int, ...]
    cores: tuple[int, ...]
    policy: str
    mode: str


@dataclass(frozen=True, slots=True)
class Instruction:
    """Instruction of a live controller."""

    kind: ClassVar[str] = ""


@dataclass(frozen=True, slots=True)
class SetCores(Instruction):
    """Assign cores to a job; idempotent. Shrinks come before growths."""

    kind: ClassVar[str] = "set-cores"
    job: str
    cores: int
    reason: Reason
    generation: int = 0
    """The number of this instruction among those to the job."""


@dataclass(frozen=True, slots=True)
class Solve(Instruction):
    """Solve for the best policy in another process, and report `Solved` or `SolveFailed`."""

    kind: ClassVar[str] = "solve"
    request: str


@dataclass(frozen=True, slots=True)
class Alert(Instruction):
    """Alert to a person."""

    kind: ClassVar[str] = "alert"
    about: str
    text: str


def instruction_to_mapping(instruction: Instruction) -> dict[str, Any]:
    """Return an instruction as plain values, which JSON can hold."""
    made: dict[str, Any] = {"kind": instruction.kind}
    match instruction:
        case SetCores(job, cores, reason, generation):
            why = {
                "counts": reason.counts,
                "cores": reason.cores,
                "policy": reason.policy,
                "rule": reason.mode,
            }
            made.update(job=job, cores=cores, reason=why, generation=generation)
        case Solve(request):
            made.update(request=request)
        case Alert(about, text):
            made.update(about=about, text=text)
    return made
