"""``corewise fit`` on a table of several types of jobs: a curve for each, and a system file of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from corewise.cli.options import number
from corewise.cli.output import print_facts, print_json, print_table
from corewise.cli.targets import print_written, require_target

if TYPE_CHECKING:
    from corewise.estimation.throughput.measured import CurveFit

__all__ = ["fit_several"]


def fit_several(
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
    widest = max(float(fit.cores.max()) for fit in found.values())
    if save:
        classes = [JobClass(name, speedup=fit.curve) for name, fit in found.items()]
        save_system(System(pool or widest, classes), save)
    if as_json:
        print_json(
            {
                "classes": [_as_mapping(name, fit) for name, fit in found.items()],
                "system": str(save) if save else None,
            }
        )
        return
    print_facts(f"{Path(file).name}: {len(found)} types of jobs on up to {widest:g} cores", _notes(found))
    print_table(
        ["class", "family", "parameters", "relative\nerror", "measurements", "times faster\non all of them"],
        [_row(name, fit) for name, fit in found.items()],
        names=3,
    )
    print_written((save, "system, in which arrival rates and size rates are still to be filled in,"))


def _as_mapping(name: str, fit: CurveFit) -> dict[str, object]:
    return {
        "name": name,
        "family": fit.family,
        "parameters": fit.parameters,
        "points": [list(point) for point in getattr(fit.curve, "points", ())] or None,
        "scale": fit.scale,
        "error": fit.error,
        "n": int(fit.cores.size),
        "notes": list(fit.notes),
    }


def _row(name: str, fit: CurveFit) -> list[str]:
    values = "\n".join(f"{key} = {value:.4g}" for key, value in fit.parameters.items())
    top = float(fit.curve.rate(float(fit.cores.max())))
    return [name, fit.family, values, f"{fit.error:.2%}", f"{fit.cores.size}", f"{top:.3g}"]


def _notes(found: dict[str, CurveFit]) -> list[tuple[str, str]]:
    return [(name, note) for name, fit in found.items() for note in fit.notes]
