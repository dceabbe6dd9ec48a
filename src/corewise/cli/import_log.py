"""``corewise import``: a log that another program wrote, as an event log."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from corewise.cli.options import AsJson, from_options, number, whole_number
from corewise.cli.output import emit
from corewise.cli.reporting import reporting
from corewise.cli.targets import print_written, require_target
from corewise.cli.waiting import progress_bar, waiting
from corewise.errors import InvalidInput, printable

if TYPE_CHECKING:
    from corewise.observation.importers.options import ImportOptions

__all__ = ["import_log"]


def _column(says: str) -> object:
    return typer.Option(metavar="COLUMN", help=f"The column that says {says}.")


@dataclass(frozen=True)
class ImportChoices:
    """Options of an import as they are given; what is not given is None."""

    format_: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="NAME",
            help="sacct, sacct-json, jobcomp, swf, pollux, philly, elastisim, parquet or csv. "
            "Default: by content.",
        ),
    ] = None
    submit: Annotated[str | None, _column("when a job was submitted")] = None
    start: Annotated[str | None, _column("when it started")] = None
    end: Annotated[str | None, _column("when it ended")] = None
    wait: Annotated[str | None, _column("how long it waited")] = None
    duration: Annotated[str | None, _column("how long it ran")] = None
    cores: Annotated[str | None, _column("how many cores it held")] = None
    state: Annotated[str | None, _column("what became of it")] = None
    job: Annotated[str | None, _column("its name; rows of one name are stretches of one job")] = None
    classes: Annotated[
        str | None,
        typer.Option(
            "--class", metavar="COLUMNS", help="The columns that make its class, such as User,Partition."
        ),
    ] = None
    class_pattern: Annotated[
        str | None,
        typer.Option(
            metavar="REGEX", help="What it finds in the text of the class (its first group) is the class."
        ),
    ] = None
    most_classes: Annotated[
        str, typer.Option("--classes", metavar="N", help="Keep so many classes; the others become one.")
    ] = ""
    done: Annotated[list[str] | None, typer.Option(metavar="WORD", help="A state of jobs that are done.")] = (
        None
    )
    unfinished: Annotated[
        list[str] | None, typer.Option(metavar="WORD", help="A state of jobs that left unfinished.")
    ] = None
    nodes: Annotated[Path | None, typer.Option(metavar="CSV", help="ElastiSim's node utilisation.")] = None
    zone: Annotated[
        str | None,
        typer.Option(metavar="ZONE", help="Where times without a zone are from: Europe/Amsterdam."),
    ] = None
    time_format: Annotated[
        str | None,
        typer.Option(
            metavar="FORMAT",
            help="How times are written, such as '%d.%m.%Y %H:%M'; or what numbers are: milliseconds.",
        ),
    ] = None
    unit: Annotated[
        str | None,
        typer.Option(metavar="UNIT", help="milliseconds, seconds, minutes, hours or days. Default: seconds."),
    ] = None
    since: Annotated[str | None, typer.Option(metavar="TIME", help="When the observation opens.")] = None
    until: Annotated[str | None, typer.Option(metavar="TIME", help="When it closes.")] = None
    pool: Annotated[str | None, typer.Option(metavar="N", help="How many cores there are.")] = None

    def added_to(self, options: ImportOptions) -> ImportOptions:
        """Return options with these in place of their own."""
        parts = {"done": self.done, "unfinished": self.unfinished}
        given: dict[str, Any] = {
            **vars(self),
            **{name: tuple(words) if words else None for name, words in parts.items()},
            "format": self.format_,
            "nodes": str(self.nodes) if self.nodes else None,
            "classes": tuple(part.strip() for part in self.classes.split(",")) if self.classes else None,
            "pool": number(self.pool, "--pool") if self.pool else None,
            "most_classes": whole_number(self.most_classes, "--classes", least=1)
            if self.most_classes
            else None,
        }
        del given["format_"]
        return options.with_options(**{name: value for name, value in given.items() if value is not None})


@reporting
@from_options(ImportChoices)
def import_log(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The log, compressed or not.")],
    out: Annotated[Path, typer.Option(metavar="LOG", help="Where to write the event log (.csv or .csv.gz).")],
    given: ImportChoices,
    mapping: Annotated[
        Path | None,
        typer.Option(metavar="TOML", help="These options in a file. Default: FILE.toml, if it is there."),
    ] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Say of every row that is not used as it is why not.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Import a log of another program: Slurm, SWF, workload traces, any table.

    Every job becomes its events: it arrives when it is submitted, waits without cores, holds what it was
    given, and leaves: done, or unfinished. What was made of each row is counted.
    """
    from corewise.observation.importers.importing import import_log as read_log

    options = given.added_to(_options_beside(file, mapping))
    require_target(out, file)
    began = perf_counter()
    size = file.stat().st_size if file.is_file() else 1
    with progress_bar(f"Reading {file}", size / 1e6, "MB") as progress:
        log = read_log(file, options, progress=progress)
    with waiting(f"Writing {out} ..."):
        log.save(out)
    seconds = perf_counter() - began
    reasons = log.account.lines() if verbose else None
    for line in [] if as_json else reasons or []:
        print(printable(line), file=sys.stderr)
    took = ("seconds", f"{seconds:.3g}, to read and write")
    emit(log, as_json, took, title=str(file), reasons=reasons, out=str(out), seconds=seconds)
    if as_json:
        return
    print_written((out, "event log"))
    if log.departures and len(log.jobs_by_class) > 1:
        words = shlex.join([str(out), "--cores", f"{log.pool:.15g}", "--unit", log.unit])
        print(printable(f"Next:  corewise advise {words} --out report"))


def _options_beside(file: Path, mapping: Path | None) -> ImportOptions:
    """Return the options in a file that is named, or that is beside the log."""
    from corewise.observation.importers.options import ImportOptions

    beside = Path(f"{file}.toml")
    if mapping is not None:
        return ImportOptions.load(mapping)
    try:
        return ImportOptions.load(beside) if beside.is_file() else ImportOptions()
    except OSError as error:
        raise InvalidInput(f"{file}: {error.strerror}") from None
