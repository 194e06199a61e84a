"""How does a vector turn with its position? RoFormer's Figure 1, with the vector's own numbers."""

from pathlib import Path

import numpy as np

import ropecli
from ropecli.render import rotation_figure

rope = ropecli.Rotary(head_dim=64)
x = np.random.default_rng(7).standard_normal(64)
Path("figure1.png").write_bytes(rotation_figure.drawn(x, rope, suffix=".png"))

for pair in (0, 10, 21, 31):
    turned = ropecli.rotate(np.stack([x, x]), rope, positions=[0, 1])[:, rope.pairs_in[pair]]
    start, end = np.arctan2(turned[:, 1], turned[:, 0])
    angle = np.angle(np.exp(1j * (end - start)))
    print(f"pair {pair:2}  turns by {angle:.6f} rad a position, theta {rope.inv_freq[pair]:.6f}")
