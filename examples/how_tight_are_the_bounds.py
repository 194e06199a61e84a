"""How tight are RoFormer's bounds?
================================

Abel's summation by parts gives the bounds of Eq. 37. Two others need no such
argument: the product of the norms and the envelope of the pairs. Both are closer to the score.
"""

import numpy as np

import ropecli

q, k = np.random.default_rng(0).standard_normal((2, 64))
result = ropecli.decay(ropecli.Rotary(head_dim=64), q=q, k=k, max_distance=256, at=20)
picture = result.figure()
picture.savefig("how_tight_are_the_bounds.png")
picture

# %%

result
