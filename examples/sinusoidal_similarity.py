"""How alike are the codes of two positions?
=========================================

The inner product of two sinusoidal codes depends on their distance and is even in it. It is the
score that RoPE gives to a query and a key of (1, 0, 1, 0, ...).
"""

import ropecli

result = ropecli.similarity(ropecli.Rotary(head_dim=128), max_distance=512, positions=64)
picture = result.figure()
picture.savefig("sinusoidal_similarity.png")
picture

# %%

result
