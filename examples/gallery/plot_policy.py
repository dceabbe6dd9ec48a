"""
The optimal policy as a heat map
================================

Which share of the cores the first class holds in every state, under the optimal policy. The first class has
a parallel part of 0.3 and hardly gains from more cores; the second one has 0.8.
"""

import corewise as cw

system = cw.load_system("paper:1").at_load(0.7)
solution = cw.solve(system)
figure = cw.plots.policy_heatmap(solution.policy, system, capacity=40)

# %%
# The cores of each class in two states: three and two jobs, and twenty of each.

solution.policy.allocate([[3, 2], [20, 20]])
