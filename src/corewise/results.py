"""Classes of results, for annotations and for reference.

All are frozen but `Learning` and `Sweep`, which are iterators. At a prompt a result shows as one line, in a
notebook as a small table, and printed in full.
"""

from corewise.analysis.information import Information
from corewise.analysis.lower.bounds import Bounds
from corewise.analysis.performance import ClassPerformance, Performance
from corewise.control.improve.improved import Improvement
from corewise.control.solution import Solution
from corewise.estimation.changes.alarms import Alarm
from corewise.estimation.concave import SpeedBand
from corewise.estimation.estimates import Candidate, Estimate, Estimates
from corewise.estimation.quantities import Quantity
from corewise.estimation.residuals import GoodnessOfFit
from corewise.estimation.throughput.measured import CurveFit, FamilyFit
from corewise.kit.renamed import warn_renamed as _warn_renamed
from corewise.learning.epochs import Epoch
from corewise.learning.loop import Learning
from corewise.observation.event_logs import EventLog
from corewise.observation.sample_path import EventKind
from corewise.observation.statistics import ClassStatistics
from corewise.simulation.job_times import ClassTimes
from corewise.simulation.replicate import ClassReplications, Percentile, Replications
from corewise.simulation.run import ClassRun, Run
from corewise.simulation.slowdowns import Slowdown, Slowdowns
from corewise.simulation.state import State
from corewise.studies.compare import Comparison
from corewise.studies.means import SimulatedMean
from corewise.studies.plan import CapacityPlan
from corewise.studies.sweeps.sweep import Sweep, SweepMean
from corewise.studies.sweeps.trial import SweepRow

__all__ = [
    "Alarm",
    "Bounds",
    "Candidate",
    "CapacityPlan",
    "ClassPerformance",
    "ClassReplications",
    "ClassRun",
    "ClassStatistics",
    "ClassTimes",
    "Comparison",
    "CurveFit",
    "Epoch",
    "Estimate",
    "Estimates",
    "EventKind",
    "EventLog",
    "FamilyFit",
    "GoodnessOfFit",
    "Improvement",
    "Information",
    "Learning",
    "Percentile",
    "Performance",
    "Quantity",
    "Replications",
    "Run",
    "SimulatedMean",
    "Slowdown",
    "Slowdowns",
    "Solution",
    "SpeedBand",
    "State",
    "Sweep",
    "SweepMean",
    "SweepRow",
]


def __getattr__(name: str) -> object:
    """Return what an old name stands for, with a warning."""
    if name != "Event":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    _warn_renamed("results.Event", "results.EventKind")
    return EventKind
