"""
Results as tables
=================

What the functions of corewise return shows itself as a small table in a notebook, and as a few lines when
it is printed. This page goes round the ring once: policies side by side, the optimum with its certificate,
a simulation, the estimates from it, and what a policy made from them is worth.
"""

import corewise as cw

# %%
# Thirty cores and two classes at a load of 0.7: the paper's first example with thirteen times its arrivals.

system = cw.load_system("paper:1").at_load(0.7)
system

# %%
# All policies side by side. Every number is exact, nothing is simulated.

cw.compare(system)

# %%
# The optimum, and the two bounds between which it is proved to lie.

solution = cw.solve(system)
solution

# %%
# A simulation under equal shares, as one would watch a real pool that nobody has tuned.

run = cw.simulate(system, "equi", departures=20_000, rng=7)
run

# %%
# The curves, from that run. The true parallel parts are 0.3 and 0.8.

estimates = cw.estimate(run, system)
estimates

# %%
# The best policy for the estimated curves, evaluated exactly under the true ones.

learnt = cw.solve(estimates.applied_to(system)).policy
performance = cw.evaluate(system, learnt)
performance

# %%
# How much more it costs than the optimum, as a fraction:

performance.mean_cost / solution.mean_cost - 1
