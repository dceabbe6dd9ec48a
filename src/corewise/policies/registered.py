"""The names of the policies of this package; each is imported when it is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from corewise.policies.names import SAVED, Name, Request, register

if TYPE_CHECKING:
    from corewise.model.system import System
    from corewise.policies.base import Policy

__all__: list[str] = []


def _equi(_: Request) -> Policy:
    from corewise.policies.equi import Equi

    return Equi()


def _greedy(_: Request) -> Policy:
    from corewise.policies.greedy import Greedy

    return Greedy()


def _whittle(_: Request) -> Policy:
    from corewise.policies.whittle import Whittle

    return Whittle()


def _job_index(request: Request) -> Policy:
    from corewise.errors import InvalidPolicy
    from corewise.policies.jobs.index import JobIndex

    if not request.argument:
        return JobIndex()
    try:
        load = float(request.argument)
    except ValueError:
        raise InvalidPolicy(
            f"policy 'job-index:{request.argument}' needs {_long_run_load(request.system)}"
        ) from None
    return JobIndex(load=load, name=f"job-index:{request.argument}")


def _long_run_load(_: System) -> str:
    return "a long-run load, such as job-index:0.8, or job-index:0 for a batch"


def _held(_: Request) -> Policy:
    from corewise.policies.moving.held import Held

    return Held()


def _fixed(request: Request) -> Policy:
    from corewise.policies.fixed import Fixed

    return Fixed.parsed(request.argument)


def _shares(system: System) -> str:
    share = 1.0 / len(system.classes)
    return f"a share for each class, such as fixed:{','.join(f'{share:.3g}' for _ in system.classes)}"


def _priority(request: Request) -> Policy:
    from corewise.policies.priority import Priority

    return Priority([name.strip() for name in request.argument.split(",")])


def _order(system: System) -> str:
    return f"an order, such as priority:{','.join(system.names)}"


def _whole(request: Request) -> Policy:
    from corewise.errors import InvalidPolicy
    from corewise.policies.base import policy_named
    from corewise.policies.whole import WholeCores

    text, system, capacity, folder = request
    if not text:
        raise InvalidPolicy(f"policy 'whole:' needs {_rounded(system)}")
    return WholeCores(policy_named(text, system, capacity=capacity, folder=folder))


def _rounded(_: System) -> str:
    return "the policy to round, such as whole:whittle"


def _saved(request: Request) -> Policy:
    from corewise.policies.saved import load_policy

    return load_policy(request.argument)


register(
    {
        "equi": Name(_equi),
        "greedy": Name(_greedy),
        "whittle": Name(_whittle),
        "job-index": Name(_job_index, argument=_long_run_load, optional=True),
        "held": Name(_held, computed=True),
        "fixed": Name(_fixed, argument=_shares),
        "priority": Name(_priority, argument=_order),
        "whole": Name(_whole, argument=_rounded),
        SAVED: Name(_saved),
    }
)
