"""Importers: logs of other programs as event logs, one format per file; `registry` lists them."""
