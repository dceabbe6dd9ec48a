"""Which corewise this is: rows made by different ones are not to be mixed."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

__all__ = ["corewise_version"]


def corewise_version() -> str:
    """Return the version that is installed."""
    try:
        return version("corewise")
    except PackageNotFoundError:
        return "(not installed)"
