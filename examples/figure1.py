"""How does a vector turn with its position?
=========================================

RoFormer's Figure 1 with the numbers of a real vector. Pair i turns by m theta_i at position m: the
first pair by a radian at each position, the last one hardly at all.
"""

import numpy as np

import ropecli

rope = ropecli.Rotary(head_dim=64)
x = np.random.default_rng(7).standard_normal(64)

for pair in (0, 10, 21, 31):
    turned = ropecli.rotate(np.stack([x, x]), rope, positions=[0, 1])[:, rope.pairs_in[pair]]
    start, end = np.arctan2(turned[:, 1], turned[:, 0])
    angle = np.angle(np.exp(1j * (end - start)))
    print(f"pair {pair:2}  turns by {angle:.6f} rad a position, theta {rope.inv_freq[pair]:.6f}")

picture = ropecli.rotation(x, rope).figure()
picture.savefig("figure1.png")
picture
