"""corewise learns how your jobs scale, and shares your cores so that they finish sooner.

Where to find what, by section of the paper:

- section 2, the world: `corewise.model` (curves, classes, systems), `corewise.observation` (what is seen of
  it), `corewise.policies` (who gets which cores), `corewise.simulation` (random paths)
- section 3, the curves from what is observed: `corewise.estimation`; how much data can tell:
  `corewise.analysis` (exact performance, information, bounds)
- section 4, the best policy: `corewise.control`
- section 5, the loop: `corewise.learning`; the experiments: `corewise.experiments`

The public names are listed in ``__init__.pyi``; each is imported when it is first used. What functions return
is in `corewise.results`, what they can be given beside policies and systems in `corewise.solvers`,
`corewise.schedules` and `corewise.memories`, size laws in `corewise.sizes`, what they raise in
`corewise.errors`, figures in `corewise.plots`.
"""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
