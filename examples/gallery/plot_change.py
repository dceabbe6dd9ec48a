"""
A change, found
===============

After 1000 units of time the parallel part of class two falls from 0.8 to 0.2. The adaptive algorithm is not
told. It finds when that was (the band is a 95 % interval), and forgets what the class was before.
"""

import corewise as cw

system = cw.load_system("paper:1")
changing = cw.System(system.cores, system.classes, [cw.Change(1000.0, "two", cw.Amdahl(0.2))])
algorithm = cw.adaptive(changing, departures=200, steps=40, between_alarms=1e6)
epochs = list(cw.learn(cw.SimulatedPlant(changing, rng=7), algorithm))
figure = cw.plots.learn_figure(epochs, changing, truth=changing)

# %%
# What was said, and when:

for epoch in epochs:
    for alarm in epoch.alarms:
        print(alarm)
