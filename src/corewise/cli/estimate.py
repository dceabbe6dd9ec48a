"""``corewise estimate``: the speed-up curves that an event log speaks for."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, TypedDict

import typer

from corewise.cli.options import AsJson, SystemName, confidence_level
from corewise.cli.output import print_facts, print_json, print_table
from corewise.cli.reporting import reporting
from corewise.cli.targets import draw, print_written, require_figure, require_target
from corewise.cli.waiting import waiting
from corewise.errors import InvalidFile
from corewise.kit.unit_labels import rate_suffix, with_unit

if TYPE_CHECKING:
    from corewise.estimation.estimates import Estimate, Estimates
    from corewise.estimation.residuals import GoodnessOfFit
    from corewise.model.system import System
    from corewise.observation.event_logs import EventLog

__all__ = ["estimate"]

_SAID = {
    "law": "the times between its departures are not as its rates say. Another curve, another size rate, or "
    "sizes that are not exponential?",
    "order": "its departures come in fast and slow stretches. Rates that drift, or sizes that are not "
    "exponential?",
    "widths": "its departures at each number of cores per job are not as the curve says. Another family "
    "(--family auto)?",
    "sizes": "the work that its jobs have done when they leave is not that of exponential sizes",
}
"""What each test of the fit finds wrong, in words."""


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
        classes = [_as_mapping(row, verdicts.get(name)) for name, row in found.items()]
        print_json({"classes": classes, **_about(log, confidence), "unit": question, "seconds": seconds})
        return
    _print_log(events, log, known.unit, question, seconds)
    _print_estimates(found, confidence, known.unit)
    _print_fit(verdicts)
    print_written((plot, "plot of the curves"), (residuals, "plot of the residuals"))
    if save:
        print_facts(f"Wrote the system to {save}. Next:  corewise solve {save}", _kept(found, known))


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


def _warning(log: EventLog) -> str:
    """Return what was done about rows that cannot be used."""
    return f"{log.censored:,} jobs that such rows are about are censored there, as if they were cancelled"


# --- for machines -----------------------------------------------------------------------------


def _about(log: EventLog, level: float) -> dict[str, object]:
    return {
        "level": level,
        "rows": log.rows,
        "skipped": log.skipped,
        "skipped_reasons": list(log.reasons),
        "cut_short": log.censored,
        "warning": _warning(log) if log.skipped else None,
        "arrivals": log.path.arrivals,
        "departures": log.path.departures,
        "time": log.path.duration,
    }


def _as_mapping(found: Estimate, verdict: GoodnessOfFit | None) -> dict[str, object]:
    from corewise.model.speedup import Tabulated

    return {
        "name": found.name,
        "family": found.family,
        "parameters": found.parameters,
        "curve": found.curve.points if isinstance(found.curve, Tabulated) else None,
        "band": found.band.as_mapping() if found.band else None,
        "stderr": found.stderrs,
        "interval": found.intervals,
        "departures": found.departures,
        "informative": found.informative,
        "at_boundary": found.at_boundary,
        "certified": found.certified,
        "log_likelihood": found.log_likelihood,
        "arrival_rate": asdict(found.arrival_rate),
        "share": asdict(found.share),
        "size_rate": asdict(found.size_rate) if found.size_rate else None,
        "candidates": [vars(candidate) for candidate in found.candidates],
        "note": found.note,
        "sizes": found.sizes,
        "dispersion": asdict(found.dispersion) if found.dispersion else None,
        "goodness_of_fit": verdict
        and {
            "p_value": verdict.p_value,
            "doubtful": verdict.doubtful,
            "tests": verdict.p_values,
            "residuals": verdict.residuals.size,
        },
    }


# --- for people -------------------------------------------------------------------------------


def _print_log(file: Path, log: EventLog, unit: str | None, question: str | None, seconds: float) -> None:
    path = log.path
    facts = [
        ("departures", f"{path.departures:,} in {path.duration:,.6g} {unit or 'units of time'}"),
        ("rows", f"{log.rows:,}, read and used in {seconds:.3g} s"),
    ]
    if log.skipped:
        facts.append(("skipped", f"{log.skipped:,} of the rows could not be used:"))
        facts += [("", reason) for reason in log.reasons]
        if log.skipped > len(log.reasons):
            facts.append(("", f"and {log.skipped - len(log.reasons):,} more"))
        facts.append(("note", _warning(log)))
    if question:
        facts.append(("warning", f"events come at {question} If so, the estimates are far off"))
    print_facts(str(file), facts)


def _print_estimates(found: Estimates, level: float, unit: str | None) -> None:
    interval = f"{100.0 * level:.6g} % interval"
    print_table(
        ["class", "curve", "estimate", "±\nstderr", interval, "departures"],
        [row for estimate in found.values() for row in _parameter_rows(estimate, unit)],
        names=2,
    )
    notes = [(estimate.name, note) for estimate in found.values() for note in _notes(estimate)]
    if notes:
        print_facts("Notes", notes)
    print_table(
        ["class", with_unit("arrival rate", unit), interval, "share", interval],
        [
            [
                estimate.name,
                *_with_interval(estimate.arrival_rate.value, estimate.arrival_rate.interval),
                *_with_interval(estimate.share.value, estimate.share.interval),
            ]
            for estimate in found.values()
        ],
    )
    evidence = [row for estimate in found.values() for row in _evidence_rows(estimate)]
    if evidence:
        columns = ["class", "family", "parameters", "log-likelihood", "BIC above\nthe least", "weight"]
        print_table(columns, evidence, names=3)


def _parameter_rows(found: Estimate, unit: str | None) -> Iterator[list[str]]:
    """Yield a row for each parameter; what is the same as above is not repeated."""
    about, left = found.name, f"{found.departures:,}"
    if not found.informative:
        yield [about, found.family, "", "", "no information", left]
        return
    rows = [
        (f"{found.family} {name}", value, found.stderrs[name], found.intervals[name])
        for name, value in found.parameters.items()
    ]
    if found.band and found.curve:
        bounds = zip(found.band.cores, found.band.low, found.band.high, strict=True)
        rows += [
            (f"s({z:.4g})", float(found.curve.rate(z)), math.inf, (low, high)) for z, low, high in bounds
        ]
    if found.size_rate:
        rate = found.size_rate
        rows.append((with_unit("size rate", unit), rate.value, rate.stderr, rate.interval))
    for name, value, stderr, interval in rows:
        shown, within = _with_interval(value, interval)
        yield [about, name, shown, f"{stderr:.2g}" if math.isfinite(stderr) else "-", within, left]
        about, left = "", ""


def _notes(found: Estimate) -> Iterator[str]:
    if not found.informative:
        yield f"no information on its {found.family} curve: {found.note}"
    elif found.note:
        yield found.note
    if found.band:
        yield "a free curve; its intervals hold at all numbers of cores together"
    if found.at_boundary:
        yield f"its most likely {found.family} curve is at the end of the range of its parameters"


def _evidence_rows(found: Estimate) -> Iterator[list[str]]:
    name = found.name
    for candidate in found.candidates:
        yield [
            name,
            candidate.family,
            "\n".join(f"{key} = {value:.4g}" for key, value in candidate.parameters.items()),
            f"{candidate.log_likelihood:.6g}",
            f"{candidate.bic - found.candidates[0].bic:.4g}",
            f"{candidate.weight:.3g}",
        ]
        name = ""


def _print_fit(verdicts: Mapping[str, GoodnessOfFit]) -> None:
    facts = []
    for name, verdict in verdicts.items():
        said = f"no sign against it (p = {verdict.p_value:.2g})"
        if math.isnan(verdict.p_value):
            said = "too few departures to tell"
        elif verdict.doubtful:
            worst = min(verdict.p_values, key=lambda test: verdict.p_values[test])
            said = f"warning: it does not (p = {verdict.p_value:.2g}): {_SAID[worst]}"
        facts.append((name, said))
    if facts:
        print_facts("Does the log follow the model?", facts)


def _with_interval(value: float, interval: tuple[float, float]) -> tuple[str, str]:
    low, high = interval
    shown = "-" if math.isnan(value) else f"{value:.6g}"
    return shown, f"{low:.4g}–{high:.4g}"


def _kept(found: Estimates, system: System) -> list[tuple[str, str]]:
    """Return what the saved system has that was not estimated."""
    facts = []
    for job_class in system.classes:
        row = found[job_class.name]
        if not row.informative:
            values = ", ".join(f"{key} = {value:g}" for key, value in job_class.speedup.parameters.items())
            curve = f"{job_class.speedup.family} curve" + (f", {values}" if values else "")
            facts.append((job_class.name, f"no information: kept its {curve}"))
        if not row.arrival_rate.value > 0.0:
            rate = job_class.arrival_rate
            kept = (
                "add its arrival rate"
                if rate is None
                else f"kept its arrival rate, {rate:g}{rate_suffix(system.unit)}"
            )
            facts.append((job_class.name, f"no job arrived: {kept}"))
        if job_class.size_rate is None and row.size_rate is None:
            facts.append((job_class.name, "its size rate was not found: add it"))
    if system.changes:
        facts.append(("note", "the changes of its curves at known times are left out"))
    return facts
