"""Schedules: the number of departures in each window of a learning algorithm."""

from corewise.learning.schedules import Constant, Growing, Schedule

__all__ = ["Constant", "Growing", "Schedule"]
