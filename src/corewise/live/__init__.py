"""Live pools: real jobs on real cores.

state      the controller, pure: events in, instructions out
journal    the SQLite store of events, snapshots, replay
run        the pool, its jobs, the runner thread, the solver process
engines    run jobs and move their cores: threads, processes, Dask, Ray, Slurm, Kubernetes
service    the controller over HTTP, and its page
demo       two pools side by side
client     of the service, with the standard library alone

The names are listed in ``__init__.pyi``; each is imported when it is first used, so that worker processes
start quickly.
"""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
