"""``corewise fit``: a speed-up curve from measured throughputs."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from corewise.cli.options import AsJson, confidence_level, number
from corewise.cli.output import emit
from corewise.cli.reporting import reporting
from corewise.cli.targets import draw, print_written, require_figure, require_target
from corewise.errors import InvalidFile, InvalidInput, nearest
from corewise.kit.report import Report, Table

if TYPE_CHECKING:
    from corewise.estimation.throughput.measured import CurveFit
    from corewise.estimation.throughput.tables import MeasuredTable

__all__ = ["fit"]

_ALIKE = 1e-3
"""Below this p-value rows are of several kinds."""


@reporting
def fit(  # noqa: PLR0913, PLR0917  # one argument for each option
    curve: Annotated[
        str, typer.Argument(metavar="CURVE.csv", help="Measurements: a CSV file with a header.")
    ],
    cores: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Column of the cores. Default: known by its name, or the first."),
    ] = None,
    throughput: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", help="Column of the throughput. Default: known by its name, or the second."
        ),
    ] = None,
    time: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Column of times for one unit of work: throughput is 1 / time."),
    ] = None,
    weak: Annotated[
        bool,
        typer.Option(
            "--weak",
            help="One unit of work for each core (weak scaling): multiply throughput by cores.",
        ),
    ] = False,
    where: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN=VALUE",
            help="Use these rows only; may be given more than once. COLUMN=* fits all of them as one.",
        ),
    ] = None,
    family: Annotated[
        str | None,
        typer.Option(
            metavar="F",
            help="amdahl, power, gustafson, usl, or free: any concave curve. Default: all families.",
        ),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", help="Column of the type of job: a curve for each. Default: by its name."
        ),
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option(metavar="TOML", help="Write a system file with a class for each type of job."),
    ] = None,
    level: Annotated[str, typer.Option(metavar="L", help="The level of the band of a free curve.")] = "0.95",
    plot: Annotated[
        Path | None, typer.Option(metavar="PNG", help="Draw the measurements and the curves.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Fit a speed-up curve to measured (cores, throughput) pairs.

    Least squares on the logarithm over all families, the best chosen by the Bayesian information criterion,
    and the least concave majorant of the points beside it. The throughput at one core is fitted as well.

    A table of several types of jobs gives a curve for each: class,cores,throughput, or cores and a column for
    each type, or class and a column for each number of cores. Measurements may be repeated.
    """
    if throughput is not None and time is not None:
        raise InvalidInput("give --throughput or --time, not both")
    from corewise.estimation.throughput.tables import read_table, types_in_table

    confidence = confidence_level(level)
    table, chosen = _selected(read_table(curve), where or [])
    one = throughput is not None or time is not None or weak or chosen
    if by is not None or (not one and types_in_table(table) is not None):
        _fit_several(curve, by, family, save, cores, as_json=as_json)
        return
    if save is not None:
        raise InvalidInput(f"--save needs a table of several types of jobs, and {curve} has one")
    columns = _columns(table, cores, throughput, time)
    pairs = _pairs(table, *columns, timed=time is not None, weak=weak)
    _require_alike(table, {*columns, *chosen}, pairs)
    require_figure(plot, (), curve)
    from corewise.estimation.throughput.measured import fit_curve

    try:
        result = fit_curve(*zip(*pairs, strict=True), family=family, level=confidence)
    except InvalidInput as error:
        raise InvalidFile(f"{curve}: {error}") from None
    if plot:
        from corewise.plots.measured import measured_curves

        draw(plot, lambda: measured_curves(result))
    report = result.report()
    emit(result, as_json, title=f"{Path(curve).name}: {report.title}")
    if not as_json:
        values = "".join(f", {name} = {value!r}" for name, value in result.parameters.items())
        points = result.points and [list(point) for point in result.points]
        named = f'"{result.family}"{values}' if points is None else f'"tabulated", points = {points}'
        print(f"In a system file: speedup = {{ family = {named} }}")
        print_written((plot, "plot"))


# --- what comes in ----------------------------------------------------------------------------


def _selected(table: MeasuredTable, where: list[str]) -> tuple[MeasuredTable, list[int]]:
    """Return the table with only those rows that have the values asked for, and the columns they are in."""
    chosen = []
    for condition in where:
        column, equals, value = (part.strip() for part in condition.partition("="))
        if not equals:
            raise InvalidInput(f"--where must be COLUMN=VALUE, got {condition!r}")
        i = table.index(column, "--where")
        chosen.append(i)
        if value == "*":
            continue
        rows = [(line, row) for line, row in table.rows if row[i] == value]
        if not rows:
            values = list(dict.fromkeys(row[i] for _, row in table.rows))
            raise InvalidFile(f"{table.path}: no row with {column} = {value!r}{nearest(value, values[:50])}")
        table = replace(table, rows=rows)
    return table, chosen


def _columns(
    table: MeasuredTable, cores: str | None, throughput: str | None, time: str | None
) -> tuple[int, int]:
    """Return the positions of the cores and of the throughput or time: as named, known, or the only two."""
    from corewise.estimation.throughput.tables import CORES, THROUGHPUT, TIME

    zs = table.known(CORES) if cores is None else [table.index(cores, "--cores")]
    if time is not None:
        ys = [table.index(time, "--time")]
    elif throughput is not None:
        ys = [table.index(throughput, "--throughput")]
    else:
        ys = table.known(THROUGHPUT)
        times = [table.header[i] for i in table.known(TIME)]
        if times and not ys:
            raise InvalidFile(
                f"{table.path}: column {times[0]!r} looks like a time: say --time {times[0]} if throughput "
                f"is one over it, or else --throughput COLUMN"
            )
    if len(table.header) == 2:
        zs = zs or [i for i in (0, 1) if i not in ys][:1]
        ys = ys or [i for i in (0, 1) if i not in zs]
    for found, what, option in ((zs, "cores", "--cores"), (ys, "throughput", "--throughput or --time")):
        if len(found) != 1:
            raise InvalidFile(
                f"{table.path}: which column is the {what}? Say with {option}; columns: "
                f"{', '.join(table.header)}"
            )
    if zs == ys:
        raise InvalidFile(f"{table.path}: column {table.header[zs[0]]!r} cannot be both cores and throughput")
    return zs[0], ys[0]


def _pairs(table: MeasuredTable, z: int, y: int, *, timed: bool, weak: bool) -> list[tuple[float, float]]:
    """Return cores and throughput of every row."""
    from corewise.estimation.throughput.least_squares import check_measurement
    from corewise.estimation.throughput.tables import number_or_text
    from corewise.kit import checks

    pairs = []
    for line, row in table.rows:
        try:
            cores, value = (
                checks.positive(number_or_text(row[i]), f"column {table.header[i]!r}", InvalidFile)
                for i in (z, y)
            )
            value = 1.0 / value if timed else value
            pairs.append(check_measurement(cores, value * cores if weak else value))
        except InvalidInput as error:
            raise InvalidFile(f"{table.path}: line {line}: {error}") from None
    return pairs


def _require_alike(table: MeasuredTable, used: set[int], pairs: list[tuple[float, float]]) -> None:
    """Raise `InvalidFile` if the values of another column say that the rows are of several kinds."""
    from corewise.estimation.throughput.measured import groups_alike

    cores, throughput = zip(*pairs, strict=True)
    for i in (i for i in range(len(table.header)) if i not in used):
        values = [row[i] for _, row in table.rows]
        kinds = list(dict.fromkeys(values))
        if not 2 <= len(kinds) <= len(values) // 2 or groups_alike(cores, throughput, values) > _ALIKE:
            continue
        column, most = table.header[i], 5
        more = f" and {len(kinds) - most} more" if len(kinds) > most else ""
        raise InvalidFile(
            f"{table.path}: rows with different {column!r} ({', '.join(kinds[:most])}{more}) have different "
            f"curves: say --where {shlex.quote(f'{column}={kinds[0]}')} to fit one of them, or --where "
            f"{shlex.quote(f'{column}=*')} to fit all as one"
        )


# --- several types of jobs --------------------------------------------------------------------


def _fit_several(
    file: str, by: str | None, family: str | None, save: Path | None, cores: str | None, *, as_json: bool
) -> None:
    """Fit a curve to every type of job in a table, print them, and write a system file if asked for.

    `cores` are those of the pool in that file; by default as many as were measured at most.
    """
    from corewise.estimation.throughput.tables import curves_in_table
    from corewise.model.files import save_system
    from corewise.model.job_class import JobClass
    from corewise.model.system import System

    pool = None if cores is None else number(cores, "--cores")
    require_target(save, file)
    found = curves_in_table(file, by=by, family=family)
    if save:
        widest = max(float(fit.cores.max()) for fit in found.values())
        classes = [JobClass(name, speedup=fit.curve) for name, fit in found.items()]
        save_system(System(pool or widest, classes), save)
    emit(_TypeFits(file, tuple(map(_TypeFit, found, found.values())), str(save) if save else None), as_json)
    if not as_json:
        print_written((save, "system, in which arrival rates and size rates are still to be filled in,"))


@dataclass(frozen=True)
class _TypeFit:
    """Curve fitted to one of several types of jobs."""

    _json_fields = (
        *("name", "family=fit.family", "parameters=fit.parameters", "scale=fit.scale", "error=fit.error"),
        *("n=fit.measurements", "notes=fit.notes", "points=fit.points"),
    )

    name: str
    fit: CurveFit

    @property
    def cells(self) -> list[str]:
        """The row of a table."""
        fit = self.fit
        values = "\n".join(f"{key} = {value:.4g}" for key, value in fit.parameters.items())
        top = float(fit.curve.rate(float(fit.cores.max())))
        return [self.name, fit.family, values, f"{fit.error:.2%}", f"{fit.measurements}", f"{top:.3g}"]


@dataclass(frozen=True)
class _TypeFits:
    """Curves of all types of jobs in a table, and the system file that they were written to."""

    _json_fields = ("classes", "system")

    file: str
    classes: tuple[_TypeFit, ...]
    system: str | None

    def report(self) -> Report:
        """Return a row for each type of job."""
        widest = max(float(row.fit.cores.max()) for row in self.classes)
        header = ["class", "family", "parameters", "relative\nerror", "measurements"]
        header.append("times faster\non all of them")
        table = Table(header, [row.cells for row in self.classes], names=3)
        title = f"{Path(self.file).name}: {len(self.classes)} types of jobs on up to {widest:g} cores"
        notes = [(row.name, note) for row in self.classes for note in row.fit.notes]
        return Report(title, notes, [table])
