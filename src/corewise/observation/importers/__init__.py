"""Importers: logs that other programs wrote, as event logs. One format a file; `registry` knows them all."""
