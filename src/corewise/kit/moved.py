"""Names and modules of the release before, under which they are still found, with a warning that says where.

A deprecated name warns once a process. A deprecated module warns when it is first imported: the finder stands
last in ``sys.meta_path``, so it is asked only for what nobody else has found.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import ModuleType
from warnings import warn

__all__ = ["MODULES", "NAMES", "deprecated_name", "find_moved_modules", "warn_moved"]

_SPACES = {
    "errors": "BoxTooLarge InvalidCurve InvalidFile InvalidInput InvalidPolicy InvalidSystem NotConverged "
    "UnstablePolicy UnstableSystem",
    "memories": "Everything Latest SinceChange",
    "results": "Alarm Bounds Candidate CapacityPlan ClassPerformance ClassStatistics Comparison CurveFit "
    "Epoch Estimate Estimates Event EventLog GoodnessOfFit Improvement Information Learning Performance "
    "Quantity Replications Run SimulatedMean Solution State Sweep SweepMean SweepRow",
    "schedules": "Constant Growing",
    "solvers": "ModifiedPolicyIteration PolicyIteration RelativeValueIteration",
}

NAMES = {
    **{name: f"{space}.{name}" for space, names in _SPACES.items() for name in names.split()},
    "BoundPolicy": "policies.base.BoundPolicy",
    "Cusum": "estimation.changes.detector.Cusum",
    "DriftingPlant": "SimulatedPlant",
    "Learner": "learning.learner.Learner",
    "Path": "SamplePath",
    "SolveRequest": "learning.learner.SolveRequest",
    "SweepPlan": "studies.sweeps.grid.SweepPlan",
    "improve": "control.improve.improved.improve",
    "load_sweep": "studies.sweeps.file.load_sweep",
    "packaged": "load_system",
}
"""From what ``corewise`` had at the top to where it is now, below ``corewise``."""

MODULES = {
    "analysis.bounds": "analysis.lower.bounds",
    "control.basis": "control.improve.basis",
    "control.equations": "control.improve.equations",
    "control.names": "policies.names",
    "control.threads": "kit.threads",
    "estimation.alarms": "estimation.changes.alarms",
    "estimation.buckets": "estimation.changes.buckets",
    "estimation.change": "estimation.changes.detector",
    "estimation.grid": "estimation.changes.grid",
    "estimation.least_squares": "estimation.throughput.least_squares",
    "estimation.measured": "estimation.throughput.measured",
    "estimation.rates": "estimation.quantities",
    "estimation.watch": "estimation.changes.class_detector",
    "learning.saved": "learning.checkpoint",
    "model.archive": "kit.archive",
    "model.checks": "kit.checks",
    "model.events": "observation.event_logs",
    "model.frozen": "kit.frozen",
    "model.lines": "observation.log_lines",
    "model.path": "observation.sample_path",
    "model.plain": "kit.jsonable",
    "model.reader": "observation.log_reader",
    "model.rows": "observation.rows",
    "model.statistics": "observation.statistics",
    "model.tally": "observation.tally",
    "plots.capacity": "plots.plan",
    "plots.convergence": "experiments.figures.convergence",
    "plots.learning": "experiments.figures.learning",
    "plots.tracking": "experiments.figures.tracking",
    "plots.worth": "experiments.figures.worth",
    "policies.shapes": "policies.waterfill.demand",
    "studies.capacity": "studies.plan",
    "studies.convergence": "experiments.studies.convergence",
    "studies.learning": "experiments.studies.learning",
    "studies.processes": "kit.processes",
    "studies.sweep": "studies.sweeps.sweep",
    "studies.sweep_file": "studies.sweeps.file",
    "studies.sweep_plan": "studies.sweeps.grid",
    "studies.sweep_pools": "studies.sweeps.pools",
    "studies.sweep_results": "studies.sweeps.results",
    "studies.sweep_trial": "studies.sweeps.trial",
    "studies.tracking": "experiments.studies.tracking",
    "studies.version": "kit.version",
}
"""From where a module was below ``corewise`` to where it is."""

_warned: set[str] = set()


def warn_moved(old: str, new: str, stacklevel: int = 3) -> None:
    """Say, once a process, that a name is deprecated, and what to write instead."""
    if old not in _warned:
        warn(f"{old} is deprecated: use {new}", DeprecationWarning, stacklevel=stacklevel)
        _warned.add(old)  # not before: where warnings are errors, each use is one


def deprecated_name(name: str) -> object:
    """Return what ``corewise`` once had under a name, one of `NAMES`."""
    warn_moved(f"corewise.{name}", f"corewise.{NAMES[name]}", stacklevel=4)
    module, _, attribute = f"corewise.{NAMES[name]}".rpartition(".")
    return getattr(import_module(module), attribute)


class _MovedModules(Loader):
    """Finds modules under their old names, and puts those of the new ones in their place."""

    def find_spec(
        self, name: str, _path: Sequence[str] | None, _: ModuleType | None = None
    ) -> ModuleSpec | None:
        package, _dot, rest = name.partition(".")
        return ModuleSpec(name, self) if package == "corewise" and rest in MODULES else None

    def create_module(self, _spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        name = module.__name__
        new = f"corewise.{MODULES[name.partition('.')[2]]}"
        warn_moved(name, new, stacklevel=3)
        sys.modules[name] = import_module(new)  # which the import takes instead of the empty one


def find_moved_modules() -> None:
    """Let modules be imported by their old names."""
    if not any(isinstance(finder, _MovedModules) for finder in sys.meta_path):
        sys.meta_path.append(_MovedModules())
