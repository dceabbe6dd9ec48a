"""
How many cores are enough?
==========================

The mean response time under the best policy against the number of cores, and the fewest cores that meet a
target. The dotted limit is what no number of cores undercuts: every job with all the cores that it can use.
"""

import corewise as cw

plan = cw.plan(cw.load_system("paper:1"), target=0.2)
figure = cw.plots.capacity_figure(plan)

# %%
# The answer, and what one more core would be worth:

plan
