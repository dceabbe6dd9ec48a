"""Estimates of curves and rates from observations, with their errors; change-point detection."""
