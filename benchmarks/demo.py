"""The demonstration on real workers: what the same jobs gain under corewise, seed by seed.

    python benchmarks/demo.py [--engine ENGINE …] [--seeds N] [--seconds S] [--json FILE]

Sixteen workers for each of two pools, one shared equally and one that learns, both at once (Ray: one after
the other), p = 0.1 and 0.95, sizes 1 : 4, load 0.7; speed-up is emulated by sleeping. The gain includes the
time in which nothing is known. It wants a machine that does nothing else: who shares it measures that.
"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.measure import Findings, Target, progress, table_of
from corewise.live.demo.demonstration import ArmComparison, demonstrate

DEMANDED = {"threads": 0.12, "dask": 0.05, "ray": 0.0}
COLUMNS = ("", "seed", "jobs", "EQUI, s", "corewise, s", "gain", "etl", "training", "steered from", "load")


@dataclass
class Report(Findings):
    """Everything that was measured: a row for each run."""

    runs: list[dict[str, Any]] = field(default_factory=list)


def share(row: ArmComparison) -> str:
    return f"{row.gain:.1%} [{row.interval[0]:.1%}, {row.interval[1]:.1%}]"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--engine", nargs="+", default=["threads", "dask"], choices=list(DEMANDED))
    parser.add_argument("--seeds", type=int, default=3, help="how many, from 1 on")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long jobs arrive")
    parser.add_argument("--json", type=Path, metavar="FILE")
    chosen = parser.parse_args()
    report, table = Report(), table_of(f"{chosen.seconds:g} s of arrivals", COLUMNS)
    for engine in chosen.engine:
        gains = []
        for seed in range(1, chosen.seeds + 1):
            found = demonstrate(engine, chosen.seconds, rng=seed)
            load = os.getloadavg()[0]
            gains.append(found.whole.gain)
            report.runs.append({**found.as_mapping(), "seed": seed, "machine_load": load})
            progress(f"{engine}, seed {seed}: gain {share(found.whole)}")
            table.add_row(
                engine,
                str(seed),
                str(found.whole.jobs),
                f"{found.whole.equi:.4f}",
                f"{found.whole.corewise:.4f}",
                share(found.whole),
                *(share(found.comparisons[name]) for name in ("etl", "training")),
                "never" if found.adopted is None else f"{found.adopted:.1f} s",
                f"{load:.1f}",
            )
        report.targets.append(Target(f"{engine}: least gain", min(gains), DEMANDED[engine], True, ""))
    return report.finish(chosen.json, table, width=140)


if __name__ == "__main__":
    sys.exit(main())
