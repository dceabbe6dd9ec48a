"""``corewise init``: a system file to start from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from corewise.cli.options import AsJson
from corewise.cli.output import print_json
from corewise.cli.reporting import reporting
from corewise.cli.targets import require_target
from corewise.errors import InvalidFile

__all__ = ["TEMPLATE", "init"]

TEMPLATE = """\
# A pool of cores and the jobs it serves. Try:  corewise compare FILE
#
# Rates are per unit of time: choose one, and keep to it.

cores = 16                                      # how many cores there are to share
unit = "hours"                                  # optional: milliseconds, seconds, minutes, hours or days

[[class]]
name = "etl"                                    # what you call these jobs
arrival_rate = 4.0                              # jobs per unit of time
size_rate = 1.0                                 # one over the mean time a job takes on ONE core
speedup = { family = "amdahl", p = 0.35 }       # how a job gains from more cores; see below

[[class]]
name = "training"
arrival_rate = 1.5
size_rate = 0.25
speedup = { family = "amdahl", p = 0.95 }
weight = 1.0                                    # optional: what one such job costs per unit of time
# max_cores = 8                                # optional: a job uses no more cores than this
# min_cores = 2                               # optional: and runs on no fewer
# resize_pause = 0.05                           # optional: how long it stands still when its cores change

# Families of curves; on up to one core every job runs at the speed of its share of it:
#   { family = "amdahl", p = 0.8 }              a fraction p of the work is parallel
#   { family = "power", p = 0.7 }               z cores run z^p times as fast as one
#   { family = "gustafson", p = 0.9 }           1 - p + p z times as fast
#   { family = "usl", sigma = 0.05, kappa = 0.001 }     contention and coherency cost
#   { family = "tabulated", points = [[1, 1], [4, 3.1], [16, 7.5]] }    measured: [cores, speed-up]
#
# A curve may change at a known time; `corewise solve` uses the curves before the first change.
# [[change]]
# time = 600.0
# class = "etl"
# speedup = { family = "amdahl", p = 0.5 }
"""


@reporting
def init(
    file: Annotated[Path, typer.Argument(help="Where to write it.")] = Path("system.toml"),
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file if it exists.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write a commented system file to start from."""
    from corewise.kit.files import write_bytes

    require_target(file)
    if file.exists() and not force:
        raise InvalidFile(f"{file}: exists already; --force overwrites it")
    write_bytes(file, TEMPLATE.replace("FILE", str(file), 1).encode())
    if as_json:
        print_json({"file": str(file)})
    else:
        print(f"Wrote {file}. Next: edit it, then  corewise compare {file}")
