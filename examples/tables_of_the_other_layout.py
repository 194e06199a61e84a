"""What if the tables have the other layout than the pairs?
========================================================

Tables of cos and sin hold each frequency twice, side by side or in both halves. V-JEPA 2 makes
them in halves and turns neighbours: the two coordinates of a pair turn by different angles. That
is not a rotation, lengths change with the position, and the weights have learned it.
"""

import numpy as np
from matplotlib.figure import Figure

import ropecli

angles = np.arange(256)[:, None] * 10_000.0 ** (-np.arange(32) / 32)
cos, sin = (np.concatenate([t, t], axis=-1) for t in (np.cos(angles), np.sin(angles)))
x = np.tile(np.random.default_rng(0).standard_normal((4, 1, 64)), (1, 256, 1))
neighbours = np.stack([-x[..., 1::2], x[..., ::2]], axis=-1).reshape(x.shape)
mixed = x * cos + neighbours * sin
right = ropecli.rotate(x, ropecli.Rotary(head_dim=64))

picture = Figure(layout="constrained")
axes = picture.subplots()
for name, y, line in (("mixed", mixed, "-"), ("a rotation", right, "--")):
    length = np.linalg.norm(y[0], axis=-1) / np.linalg.norm(x[0], axis=-1)
    print(f"{name}: lengths change by up to {np.abs(length - 1).max():.2g}")
    axes.plot(length, line, label=name)
axes.set(xlabel="position", ylabel="length after over length before")
picture.legend(loc="outside lower center", ncols=2)
picture.savefig("tables_of_the_other_layout.png")
picture

# %%
# ``identify`` says what it is:

print(ropecli.identify(x, mixed).reason)
