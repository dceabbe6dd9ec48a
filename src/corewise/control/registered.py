"""The names of the policies that a solver computes; each is imported when it is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from corewise.policies.names import Name, Request, register

if TYPE_CHECKING:
    from corewise.policies.base import Policy

__all__: list[str] = []


def _optimal(request: Request) -> Policy:
    from corewise.control.optimal import Optimal

    return Optimal(capacity=request.capacity)


def _improved(_: Request) -> Policy:
    from corewise.control.improve.improved import Improved

    return Improved()


def _residual(_: Request) -> Policy:
    from corewise.control.residual import Residual

    return Residual()


def _priced(_: Request) -> Policy:
    from corewise.control.priced.priced import Priced

    return Priced()


register(
    {
        "optimal": Name(_optimal, computed=True),
        "improved": Name(_improved, computed=True),
        "residual": Name(_residual, computed=True),
        "priced": Name(_priced, computed=True),
    }
)
