"""Schedules: how many departures each window of a learning algorithm has."""

from corewise.learning.schedules import Constant, Growing, Schedule

__all__ = ["Constant", "Growing", "Schedule"]
