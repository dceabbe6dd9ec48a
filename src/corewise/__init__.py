"""corewise learns how your jobs scale, and shares your cores so that they finish sooner.

Where to find what, by package; the sections are those of the paper:

- `corewise.model`, section 2: speed-up curves, size distributions, job classes, systems
- `corewise.observation`, section 3: events, sample paths, sufficient statistics, event logs, importers
- `corewise.policies`, section 2: the cores of every class, or job, in a state
- `corewise.analysis`: exact performance, information and lower bounds of a given policy
- `corewise.simulation`: random paths, with intervals
- `corewise.estimation`, section 3: curves from observations; change-point detection
- `corewise.control`, section 4: the optimal policy
- `corewise.learning`, section 5: the loop of estimating and solving
- `corewise.studies`: questions that need several of these: compare, plan, advice, sweeps
- `corewise.live`: real jobs: controller, journal, pool, engines, service
- `corewise.plots`, `corewise.experiments`, `corewise.cli`: figures, the paper's numbers, the command line
- `corewise.kit`, `corewise.errors`: what every package needs; the exceptions

The public names are listed in ``__init__.pyi``; each is imported when it is first used. Results of functions
are in `corewise.results`, further arguments in `corewise.solvers`, `corewise.schedules` and
`corewise.memories`, size distributions in `corewise.sizes`, checks for plug-ins in `corewise.testing`.
"""

import lazy_loader as _lazy

import corewise.control.registered
import corewise.policies.registered  # noqa: F401  # the names of policies; neither imports a policy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
