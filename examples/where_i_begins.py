"""Does i begin at 0 or at 1?
==========================

RoFormer prints its frequencies in two ways: 10000^(-2(i-1)/d) with i from 1, and 10000^(-2i/d).
They are one table only if the second i begins at 0. Points of the paper's own Figure 2, here
black, lie on that curve.
"""

import numpy as np

import ropecli

PRINTED = {32.541: 13.208, 78.218: 10.975, 108.397: 10.098, 199.731: 7.288, 214.736: 8.495}

tables = {
    "i from 0": 10_000.0 ** (-2 * np.arange(64) / 128),
    "i from 1": 10_000.0 ** (-2 * np.arange(1, 65) / 128),
}
curves = [
    ropecli.decay(ropecli.Rotary.from_inv_freq(theta), max_distance=256, step=0.02, name=name)
    for name, theta in tables.items()
]
for curve in curves:
    bound = np.interp(list(PRINTED), curve.relative_distance, curve.relative_upper_bound)
    off = np.abs(bound - list(PRINTED.values())).max()
    print(f"{curve.name}: off the printed curve by up to {off:.3f}")

picture = curves[0].figure(curves[1])
axes = picture.axes[0]
axes.plot(list(PRINTED), list(PRINTED.values()), "k.", markersize=9)
axes.set(xlim=(20, 256), ylim=(6, 16))
picture.savefig("where_i_begins.png")
picture
