"""``corewise estimate``: the speed-up curves that an event log speaks for."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, TypedDict

import typer

from corewise.cli.options import AsJson, SystemName, confidence_level
from corewise.cli.output import print_json, print_report
from corewise.cli.reporting import reporting
from corewise.cli.targets import draw, print_written, require_figure, require_target
from corewise.cli.waiting import waiting
from corewise.errors import InvalidFile
from corewise.kit.report import Report, Table, json_values
from corewise.kit.unit_labels import rate_suffix

if TYPE_CHECKING:
    from corewise.estimation.estimates import Estimates
    from corewise.model.system import System
    from corewise.observation.event_logs import EventLog

__all__ = ["estimate"]


class _How(TypedDict):
    """How to estimate."""

    family: str | None
    unknown_size_rates: bool | list[str]
    level: float
    sizes: str


@reporting
def estimate(  # noqa: PLR0913, PLR0917  # one argument for each option
    system: SystemName,
    events: Annotated[
        Path, typer.Argument(metavar="EVENTS", help="An event log, or the journal of a live pool.")
    ],
    family: Annotated[
        str | None,
        typer.Option(
            metavar="F",
            help="amdahl, power, gustafson, usl; free: any concave curve; auto: the data choose. "
            "Default: as in SYSTEM.",
        ),
    ] = None,
    unknown_size_rate: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CLASS",
            help="Estimate the size rate of this class too; may be given more than once, or as all.",
        ),
    ] = None,
    level: Annotated[str, typer.Option(metavar="L", help="The level of the intervals.")] = "0.95",
    sizes: Annotated[
        str,
        typer.Option(
            metavar="LAW",
            help="any: no law of sizes is assumed where the log tells jobs apart; or exponential.",
        ),
    ] = "any",
    lenient: Annotated[
        bool,
        typer.Option(
            "--lenient", help="Leave out and count rows that cannot be used, and cut their jobs short."
        ),
    ] = False,
    save: Annotated[
        Path | None,
        typer.Option(metavar="TOML", help="Write the system with what was estimated, for `corewise solve`."),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="PNG", help="Draw the curves over what was observed.")
    ] = None,
    residuals: Annotated[
        Path | None, typer.Option(metavar="PNG", help="Draw how well the log follows the model.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Estimate speed-up curves from an event log.

    By maximum likelihood. SYSTEM says what is known: the cores, the classes, their size rates and the
    families of their curves; the pool file of a service says it, too. A size rate that it lacks is
    estimated too, and with --family it needs no curves. Its arrival rates are not needed, and the
    parameters of its curves are not used.
    """
    from corewise.estimation.mle import estimate as estimate_curves
    from corewise.estimation.residuals import goodness_of_fit
    from corewise.estimation.units import pace, unit_question
    from corewise.model.files import save_system
    from corewise.observation.event_logs import load_events
    from corewise.observation.statistics import Statistics

    known = _known(system, family)
    confidence = confidence_level(level)
    free = _chosen(unknown_size_rate or [], known)
    # On no data at all: it finds what is wrong with the question, before the time is spent on reading.
    nothing = Statistics.empty(known.names)
    how: _How = {"family": family, "unknown_size_rates": free, "level": confidence, "sizes": sizes}
    estimate_curves(nothing, known, **how)
    require_target(save, system, events)
    for file in (plot, residuals):
        require_figure(file, known.names, system, events)
    began = perf_counter()
    with waiting(f"Reading {events} ..."):
        log = load_events(events, known, lenient=lenient)
    with waiting("Estimating ..."):
        statistics = log.statistics
        found = estimate_curves(log, known, **how)
        verdicts = goodness_of_fit(log.path, known, found)
        question = unit_question(pace(statistics, known), known.unit)
    seconds = perf_counter() - began
    if save:
        save_system(found.applied_to(known), save)
    if residuals and not verdicts:
        print(f"note: {residuals} is not written: no class has information", file=sys.stderr)
        residuals = None
    if plot:
        from corewise.plots.estimates import estimate_figure

        draw(plot, lambda: estimate_figure(statistics, known, found, level=confidence))
    if residuals:
        from corewise.plots.residuals import residual_figure

        draw(residuals, lambda: residual_figure(verdicts, names=known.names))
    if as_json:
        classes = json_values(found)
        for row in classes:
            row["goodness_of_fit"] = json_values(verdicts.get(row["name"]))
        about = {"level": confidence, **json_values(log), "unit": question, "seconds": seconds}
        print_json({"classes": classes, **about})
        return
    tables = [*found.report().tables]
    if verdicts:
        said = [(name, row.verdict) for name, row in verdicts.items()]
        tables.append(Table((), said, title="Does the log follow the model?"))
    print_report(Report(str(events), [*_log_facts(log, known.unit, question, seconds)], tables))
    print_written((plot, "plot of the curves"), (residuals, "plot of the residuals"))
    if save:
        title = f"Wrote the system to {save}. Next:  corewise solve {save}"
        print_report(Report(title, [*_kept(found, known)]))


# --- what is asked for ------------------------------------------------------------------------


def _known(source: str, family: str | None) -> System:
    """Return what is known of the system, from a system file or the pool file of a service."""
    from corewise.kit.files import read_bytes
    from corewise.model.files import POOL_KEYS, RATES, load_system, tables_of

    try:
        of_pool = any(key in tables_of(read_bytes(source), source) for key in POOL_KEYS)
    except InvalidFile:  # a packaged name, or a file that cannot be read, which is said below
        of_pool = False
    if of_pool:
        from corewise.live.service.pool_file import load_pool

        return load_pool(source).system
    return load_system(source, optional=RATES if family is None else (*RATES, "speedup"))


def _chosen(names: list[str], system: System) -> list[str]:
    """Return the classes that are named; "all" is all of them, unless a class has that name."""
    return system.names if "all" in names and "all" not in system.names else names


# --- for people -------------------------------------------------------------------------------


def _log_facts(
    log: EventLog, unit: str | None, question: str | None, seconds: float
) -> Iterator[tuple[str, str]]:
    path = log.path
    yield "departures", f"{path.departures:,} in {path.duration:,.6g} {unit or 'units of time'}"
    yield "rows", f"{log.rows:,}, read and used in {seconds:.3g} s"
    if log.skipped:
        yield "skipped", f"{log.skipped:,} of the rows could not be used:"
        yield from (("", reason) for reason in log.reasons)
        if log.skipped > len(log.reasons):
            yield "", f"and {log.skipped - len(log.reasons):,} more"
        yield "note", str(log.warning)
    if question:
        yield "warning", f"events come at {question} If so, the estimates are far off"


def _kept(found: Estimates, system: System) -> Iterator[tuple[str, str]]:
    """Yield what the saved system has that was not estimated."""
    for job_class in system.classes:
        row = found[job_class.name]
        if not row.informative:
            values = ", ".join(f"{key} = {value:g}" for key, value in job_class.speedup.parameters.items())
            curve = f"{job_class.speedup.family} curve" + (f", {values}" if values else "")
            yield job_class.name, f"no information: kept its {curve}"
        if not row.arrival_rate.value > 0.0:
            rate = job_class.arrival_rate
            kept = (
                "add its arrival rate"
                if rate is None
                else f"kept its arrival rate, {rate:g}{rate_suffix(system.unit)}"
            )
            yield job_class.name, f"no job arrived: {kept}"
        if job_class.size_rate is None and row.size_rate is None:
            yield job_class.name, "its size rate was not found: add it"
    if system.changes:
        yield "note", "the changes of its curves at known times are left out"
