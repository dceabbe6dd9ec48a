"""Reload of what may change while the service runs: the token, and limits in the pool file.

A file that cannot be used is logged, and what was read before stays.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from corewise.errors import CorewiseError
from corewise.live.service.desk import Desk
from corewise.live.service.guard import Access, Guard
from corewise.live.service.pool_file import Limits, PoolFile, load_pool
from corewise.live.service.token import Token
from corewise.model.system import System
from corewise.observation import events as happened

__all__ = ["Reload"]

_log = logging.getLogger("corewise.service")


class Reload:
    """Reload of the token and the limits of a service.

    Limits of a class are changed as by ``PUT /v1/limits``, if those in the file have changed: what was set by
    a request stays otherwise.

    Parameters
    ----------
    desk, guard : Desk and Guard
        The service.
    token, token_file : Token and path
        Its token, and where that is.
    access : callable
        From limits to who may ask.
    pool : PoolFile
        What the pool file said.
    """

    def __init__(
        self,
        desk: Desk,
        guard: Guard,
        token: Token,
        token_file: Path,
        access: Callable[[Limits], Access],
        pool: PoolFile,
    ) -> None:
        self._desk, self._guard = desk, guard
        self._token, self._token_file = token, token_file
        self._access, self._pool = access, pool

    def __call__(self) -> None:
        """Reload; from any thread but the runner's."""
        try:
            changed = self._token.renew(self._token_file)
        except CorewiseError as error:
            _log.error("the token stays as it was: %s", error)
        else:
            _log.info("reloaded the token: %s", "it is another" if changed else "it is the same")
        try:
            pool = load_pool(self._pool.path)
        except CorewiseError as error:
            _log.error("limits stay as they were: %s", error)
            return
        self._guard.change(self._access(pool.limits), pool.limits)
        self._set_limits(pool.system)
        _log.info("reloaded the limits")
        if _but_for_limits(pool) != _but_for_limits(self._pool):
            _log.warning("what else has changed in the pool file is for the next start")
        self._pool = replace(self._pool, system=pool.system, limits=pool.limits)

    def _set_limits(self, system: System) -> None:
        before = {known.name: (known.min_cores, known.max_cores) for known in self._pool.system.classes}
        for known in system.classes:
            limits = (known.min_cores, known.max_cores)
            if before.get(known.name, limits) == limits:
                continue
            try:
                self._desk.order(happened.LimitsChanged, known.name, *limits).result()
            except CorewiseError as error:
                _log.error("limits of class %r stay as they were: %s", known.name, error)


def _but_for_limits(pool: PoolFile) -> PoolFile:
    classes = [replace(known, min_cores=1, max_cores=None) for known in pool.system.classes]
    return replace(pool, system=replace(pool.system, classes=tuple(classes)), limits=Limits())
