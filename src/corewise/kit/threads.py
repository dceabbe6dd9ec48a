"""Linear algebra in one thread.

Products of a few hundred by a few thousand numbers gain little from more; on a machine that has other work to
do, threads that wait for each other made them up to forty times slower. And sums that are shared out to
threads round in another way, so that results would depend on the number of cores.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache

from threadpoolctl import ThreadpoolController

__all__ = ["one_thread"]


def one_thread() -> AbstractContextManager[object]:
    """Have linear algebra use one thread in the body, in the whole process: libraries know no other way."""
    found: AbstractContextManager[object] = _libraries().limit(limits=1, user_api="blas")
    return found


@cache
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()
