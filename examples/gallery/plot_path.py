"""
A sample path
=============

What is observed of a system: who comes, who leaves, and the cores that each class holds in between. All
that is learned is learned from this.
"""

import corewise as cw

system = cw.load_system("paper:1").at_load(0.5)
path = cw.simulate(system, "whittle", departures=200, rng=7, record=True).path
figure = cw.plots.path_figure(path)

# %%
# It is kept as columns, one row an event:

path
