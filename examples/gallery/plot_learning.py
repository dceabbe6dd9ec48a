"""
Learning, epoch by epoch
========================

The loop watches a hundred jobs leave, estimates the curves, solves for the best policy, adopts it, and
again. It knows the family of each curve, not its parameter. Above: the estimates with their intervals, and
the truth. Below: how much more the policy costs than the best one, exactly, beside equal shares.
"""

import corewise as cw

system = cw.load_system("paper:3")
algorithm = cw.algorithm_1b(system, departures=100, steps=60)
epochs = list(cw.learn(cw.SimulatedPlant(system, rng=3), algorithm))
equi = cw.evaluate(system, "equi").mean_jobs / cw.solve(system).mean_jobs - 1
figure = cw.plots.learn_figure(epochs, system, truth=system, baseline={"EQUI": equi})

# %%
# The last epoch:

epochs[-1]
