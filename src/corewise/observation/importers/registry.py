"""The importers there are, and which of them a file is for: by its content, never by its name."""

from __future__ import annotations

from corewise.errors import InvalidInput, nearest
from corewise.observation.importers.base import Importer, Source
from corewise.observation.importers.elastisim import ElastiSim
from corewise.observation.importers.slurm import SlurmCompletions, SlurmJson, SlurmTable
from corewise.observation.importers.swf import Swf
from corewise.observation.importers.table import PHILLY, POLLUX, CsvTable, ParquetTable

__all__ = ["IMPORTERS", "importer_for"]

IMPORTERS: dict[str, Importer] = {
    importer.name: importer
    for importer in (
        SlurmTable(), SlurmJson(), SlurmCompletions(), Swf(), POLLUX, PHILLY, ElastiSim(), ParquetTable(),
        CsvTable(),
    )
}  # fmt: skip
"""Every importer by its name; the first that recognises a file is taken, so the most general comes last."""


def importer_for(source: Source, name: str | None = None) -> Importer:
    """Return the importer of a name, or the one that recognises a file."""
    if name is not None:
        if name not in IMPORTERS:
            raise InvalidInput(f"unknown format {name!r}{nearest(name, list(IMPORTERS))}")
        return IMPORTERS[name]
    head = source.head()
    if not head.strip():
        raise InvalidInput("an empty file, not a log")
    for importer in IMPORTERS.values():
        if importer.recognises(head):
            return importer
    raise InvalidInput(f"not a log of a format that is known: {', '.join(IMPORTERS)}")
