"""Does RoPE's score decay with distance?
======================================

The bound decays, the score need not. For any query psi, a key of R_100 psi gives its highest score
at distance 100: there the key is rotated to the query's orientation (Barbero et al. 2024,
proposition 3.1).
"""

import numpy as np

import ropecli

rope = ropecli.Rotary(head_dim=128)
psi = np.ones((1, 128))
key = ropecli.rotate(psi, rope, positions=[100])
curve = ropecli.decay(rope, max_distance=400, q=psi[0], k=key[0])
assert curve.score is not None
for distance in (0, 50, 99, 100, 101, 200, 400):
    print(f"distance {distance:3}   score {curve.score[distance]:7.2f}")
assert curve.score.argmax() == 100

picture = curve.figure()
picture.savefig("does_the_score_decay.png")
picture
