"""
Estimated curves over what was seen
===================================

Curves from a simulated log of 20 000 departures under equal shares. Points are observed speeds, with error
bars; a line is the most likely curve, its band an interval of 95 %.
"""

import corewise as cw

system = cw.load_system("paper:1").at_load(0.5)
run = cw.simulate(system, "equi", departures=20_000, rng=7, record=True)
estimates = cw.estimate(run, system)
figure = cw.plots.estimate_figure(run.statistics, system, estimates, truth=system)

# %%
# The same in numbers:

estimates

# %%
# Does the log follow the model at all? It should: it was drawn from it.

for verdict in cw.goodness_of_fit(run.path, system, estimates).values():
    print(verdict)
