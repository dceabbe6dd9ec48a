"""Records of jobs that were read as objects, put through the same reader as tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from corewise.errors import InvalidInput
from corewise.observation.importers.base import Roles, Wanted
from corewise.observation.importers.delimited import Delimited
from corewise.observation.importers.rows import JobRows
from corewise.observation.text.fields import Layout

__all__ = ["read_records"]

_BETWEEN = "\x1f"
_NOT_IN_FIELDS = str.maketrans({_BETWEEN: " ", "\n": " ", "\r": " "})


def read_records(records: Sequence[Mapping[str, str]], roles: Roles, wanted: Wanted) -> JobRows:
    """Return the rows of records; their lines are their places, from 1."""
    if not records:
        raise InvalidInput("no jobs")
    columns = tuple(dict.fromkeys(key for record in records for key in record))
    missing = [column for column in roles.columns if column not in columns]
    columns += tuple(missing)
    roles = roles.overridden(wanted.roles, columns)
    lines = [
        _BETWEEN.join(record.get(column, "").translate(_NOT_IN_FIELDS) for column in columns)
        for record in records
    ]
    text = np.frombuffer("\n".join(lines).encode(), dtype=np.uint8)
    return Delimited(Layout(columns, roles.columns, _BETWEEN, quotes=False), roles, wanted).read([text])
