"""Can a head look back by exactly one token?
==========================================

By position alone: with R_1 psi for its key, a query scores highest one token back, and the score
can be made as sharp as one likes (Barbero et al. 2024, theorem 5.3). The same works for any
distance.
"""

import ropecli

heads = ropecli.construct(ropecli.Rotary(head_dim=128), distances=[0, 1, 64], context_length=1024)
picture = heads.figure()
picture.savefig("previous_token_head.png")
picture

# %%
# What it takes, and how long the pairs that carry a meaning keep it:

heads
