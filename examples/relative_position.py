"""Why is RoPE called relative?
============================

One query and one key at many places: the score knows the gap between them only.
"""

import numpy as np
from matplotlib.figure import Figure

import ropecli

rope = ropecli.Rotary(head_dim=64)
q, k = np.random.default_rng(0).standard_normal((2, 64))
places = np.unique(np.geomspace(1, 100_000, 60).astype(int))
keys = ropecli.rotate(np.tile(k, (len(places), 1)), rope, positions=places)

picture = Figure(layout="constrained")
axes = picture.subplots()
for gap, line in ((0, "-"), (1, "--"), (16, ":"), (256, "-.")):
    queries = ropecli.rotate(np.tile(q, (len(places), 1)), rope, positions=places + gap)
    score = (queries * keys).sum(axis=1)
    print(f"gap {gap:3}   {score[0]:+.9f} at 1   {score[-1]:+.9f} at 100,000")
    assert np.ptp(score) < 1e-9  # the angle's rounding: 1e5 rad * 1.2e-16 * |q||k|
    axes.semilogx(places, score, line, label=f"gap {gap}")
axes.set(xlabel="position of the key", ylabel="score")
picture.legend(loc="outside lower center", ncols=4)
picture.savefig("relative_position.png")
picture
