"""The error of the estimates falls as one over the square root of the observation.

The paper's Theorem 3.1 says that they converge; this is how fast.

Two classes of Example 1 under their optimal policy, observed for 250 to 64 000 departures, many times each.
"""

from __future__ import annotations

from pathlib import Path

import corewise as cw
from corewise.experiments.figures.convergence import convergence_figure
from corewise.experiments.studies.convergence import convergence
from corewise.plots.style import save_figure

FIGURE = Path("build/convergence.png")


def main() -> None:
    """Measure, print and draw."""
    system = cw.load_system("paper:1")
    policy = cw.solve(system).policy
    lengths = [250 * 2**k for k in range(9)]
    study = convergence(system, policy, departures=lengths, n=1000, rng=20261116)
    print(study)
    FIGURE.parent.mkdir(parents=True, exist_ok=True)
    save_figure(convergence_figure(study), FIGURE)
    print(f"Wrote {FIGURE}.")


if __name__ == "__main__":
    main()
