"""corewise learns how your jobs scale, and shares your cores so that they finish sooner.

Where to find what, by section of the paper:

- section 2, the world: `corewise.model` (curves, classes, systems, what is observed), `corewise.policies`
  (who gets which cores), `corewise.simulation` (random paths)
- section 3, the curves from what is observed: `corewise.estimation`; how much data can tell:
  `corewise.analysis` (exact performance, information, bounds)
- section 4, the best policy: `corewise.control`
- section 5, the loop: `corewise.learning`; the experiments: `corewise.experiments`

The public names are listed in ``__init__.pyi``; each is imported when it is first used.
"""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
