"""How do I teach RoPE in one notebook?
====================================

Four steps from a rotated pair to a bound, each with a number that the class can check by hand.

**A pair turns.** With two coordinates theta is 1: at position 1 the vector (1, 0) has turned by a
radian.
"""

import numpy as np

import ropecli

pair = ropecli.Rotary(head_dim=2)
print(ropecli.rotate([[1.0, 0.0]] * 3, pair).round(4))  # (cos m, sin m) at m = 0, 1, 2

# %%
# **Pairs turn at different speeds.** From a radian per position down to almost nothing:

rope = ropecli.Rotary(head_dim=8)
print(rope.inv_freq)  # 10000^(-2i/8)

# %%
# **Only the distance is left.** The score of a query at m and a key at n knows only m - n:

q, k = np.random.default_rng(0).standard_normal((2, 8))
for m, n in ((3, 1), (103, 101), (1003, 1001)):
    turned = ropecli.rotate(np.stack([q, k]), rope, positions=[m, n])
    print(f"m = {m:4}, n = {n:4}: {turned[0] @ turned[1]:.6f}")

# %%
# **The bound on a score falls.** Near, all pairs agree; far away they point anywhere:

curve = ropecli.decay(ropecli.Rotary(head_dim=64), max_distance=200)
picture = curve.figure()
picture.savefig("teach_rope.png")
picture

# %%
# Homework: which head dim and base does your favourite model have, and where is its bound halved?

ropecli.decay(ropecli.Rotary(head_dim=128, base=500_000.0), max_distance=8192)
