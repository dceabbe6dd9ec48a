"""``corewise compare``: all policies side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from corewise.cli.options import (
    SEED_HELP,
    AsJson,
    Capacity,
    JobsFile,
    KnownSizes,
    SystemName,
    WholeCores,
    day_of,
    parse_capacity,
    whole_number,
)
from corewise.cli.output import emit
from corewise.cli.reporting import reporting
from corewise.cli.waiting import progress_bar, say_how_long
from corewise.errors import InvalidInput

if TYPE_CHECKING:
    from corewise.model.system import System

__all__ = ["compare"]

_EVENTS = "1e6"
_USUAL_POLICIES, _EVENTS_A_SECOND = 4, 3e6  # by one core of a machine of 2020 or later
_DECISIONS_A_SECOND = 2e4  # of job-index, with some ten jobs present
_SEED = "0"


@reporting
def compare(  # noqa: PLR0913, PLR0917  # one argument for each option
    system: SystemName,
    policies: Annotated[
        list[str] | None,
        typer.Option(
            "--policy",
            metavar="P",
            help="A policy to compare; may be given again. Default: equi, greedy, whittle, and priorities "
            "(two classes) or improved (more); job-index where every job is followed.",
        ),
    ] = None,
    capacity: Capacity = None,
    simulate: Annotated[
        bool | None,
        typer.Option(
            "--simulate/--exact",
            help="Simulated or exact means. Default: exact for up to three classes if it takes no more than "
            "a minute.",
        ),
    ] = None,
    events: Annotated[
        str | None,
        typer.Option(metavar="N", help=f"Number of events to simulate for each policy. [default: {_EVENTS}]"),
    ] = None,
    seed: Annotated[str | None, typer.Option(metavar="S", help=f"{SEED_HELP} [default: {_SEED}]")] = None,
    jobs: JobsFile = None,
    whole: WholeCores = False,
    known_sizes: KnownSizes = False,
    moving_costs: Annotated[
        bool,
        typer.Option(
            "--moving-costs",
            help="Jobs hold whole cores and stand still for their resize_pause when these change, by the "
            "width rules of policies of classes: equi, optimal (followed), held and priced are simulated on "
            "the same jobs.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Compare policies with the optimum, or for many classes by simulation, and with a lower bound."""
    from corewise.model.files import load_system
    from corewise.policies.base import policy_named
    from corewise.studies.compare import compare as compare_policies

    if simulate is False and (events is not None or seed is not None):
        raise InvalidInput("--exact simulates nothing: give neither --events nor --seed")
    problem = load_system(system)
    trace = day_of(system, jobs)
    followed = trace is not None or whole or known_sizes
    chosen = [policy_named(text, problem) for text in policies] if policies else None
    asked = whole_number(events or _EVENTS, "--events", least=1)
    if capacity is None and not moving_costs and not followed:
        _say_what_is_done(problem, simulate, asked)
    with progress_bar("Comparing", 100.0, "%") as progress:
        comparison = compare_policies(
            problem,
            chosen,
            capacity=parse_capacity(capacity),
            simulate=simulate,
            events=asked,
            rng=whole_number(seed or _SEED, "--seed"),
            progress=progress,
            jobs=trace,
            whole=whole,
            known_sizes=known_sizes,
            moving_costs=moving_costs,
        )
    emit(comparison, as_json)


def _say_what_is_done(system: System, simulate: bool | None, events: int) -> None:
    """Say on stderr that means are simulated because exact ones take too long, and how long they take."""
    from corewise.analysis.tractability import Tractability
    from corewise.studies.means import LONGEST, shortest_simulation

    reach = Tractability.of(system)
    if simulate or (simulate is None and not reach.exact):
        length = shortest_simulation(system)
        if length <= LONGEST * events:  # else it is refused
            what = f"a simulation of {max(length, events):,} events of each policy"
            seconds = _USUAL_POLICIES * max(length, events) / _EVENTS_A_SECOND
            seconds += 0.0 if reach.memoryless else max(length, events) / _DECISIONS_A_SECOND
            say_how_long(what, seconds, f"at load {system.load:.6g} fewer than {length:,} determine no mean")
    if simulate is None and not reach.exact and reach.classes <= 3 and reach.memoryless:
        what = f"the exact comparison over some {reach.states:,.0f} states"
        say_how_long(what, reach.seconds, "means are simulated instead; --exact insists")
    elif simulate is False or (simulate is None and reach.exact):
        say_how_long("the exact comparison", reach.seconds, "--simulate is quicker")
