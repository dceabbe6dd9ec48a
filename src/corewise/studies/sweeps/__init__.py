"""Sweeps: many systems, policies and seeds, on one machine or a Dask cluster."""
