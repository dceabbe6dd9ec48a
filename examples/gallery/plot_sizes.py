"""
Sizes that are not exponential
==============================

Estimates of a curve from the same jobs, once as if sizes were exponential and once by strata of attained
work. Each interval is one log of 5000 departures; with sizes of CV² 16 those that assume exponential sizes
miss the truth (the line) far more often than one time in twenty.
"""

from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np

import corewise as cw

known = cw.load_system("paper:2").at_load(0.5)
law = cw.sizes.Hyperexponential(cv2=16)
plant = cw.System(known.cores, [replace(job_class, sizes=law) for job_class in known.classes])
logs = [cw.simulate(plant, "equi", departures=5000, rng=seed, record=True) for seed in range(40)]

figure, axes = plt.subplots(1, 2, figsize=(8, 4), sharey=True, layout="constrained")
truth = known["two"].speedup.p
for axis, sizes in zip(axes, ("exponential", "any"), strict=True):
    rows = [cw.estimate(log, known, sizes=sizes)["two"] for log in logs]
    ends = np.array([row.interval for row in rows])
    holds = (ends[:, 0] <= truth) & (truth <= ends[:, 1])
    for place, ((low, high), held) in enumerate(zip(ends, holds, strict=True)):
        axis.plot([place, place], [low, high], color="C0" if held else "C3", lw=1 if held else 2.5)
    axis.axhline(truth, color="black", lw=1)
    axis.set(title=f'sizes="{sizes}": {np.count_nonzero(holds)} of {len(rows)} hold', xlabel="log")
axes[0].set_ylabel("p of class two, 95 % intervals")

# %%
# What the log itself says about its sizes, by the work that every job had attained:

for verdict in cw.goodness_of_fit(logs[0], known).values():
    print(verdict)
for row in cw.estimate(logs[0], known).values():
    print(f"{row.name}: CV² {row.dispersion.value:.3g}, {row.dispersion.interval}")
