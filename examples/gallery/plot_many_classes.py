"""
Nine classes
============

Nine classes on 24 cores have far too many states for an exact answer. Means are simulated, with intervals;
the last column proves how far each policy can be from the optimum at most.
"""

import corewise as cw

classes = [
    cw.JobClass(f"class {i}", arrival_rate=2.0, size_rate=1.0 + 0.2 * i, speedup=cw.Amdahl(0.05 + 0.11 * i))
    for i in range(9)
]
pool = cw.System(cores=24, classes=classes).at_load(0.7)
cw.compare(pool, ["equi", "greedy", "whittle"], events=100_000, rng=1)
