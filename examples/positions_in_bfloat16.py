"""What happens to positions that are counted in bfloat16?
=======================================================

rotary-embedding-torch 0.9.1 counts positions in the dtype of the queries. bfloat16 has 8
significant bits: 257 becomes 256, and from 512 on only every fourth position is its own.
Frequencies in bfloat16, as after an explicit cast of a model, do less harm, but still too much.
"""

import ropecli

rope = ropecli.Rotary(head_dim=64)
policies = ("float32", "bf16-inv-freq", "bf16-positions")
result = ropecli.precision(rope, policies, context_length=8192)

picture = result.figure()
picture.savefig("positions_in_bfloat16.png")
picture

# %%
# "safe to" is the last position up to which no angle is off by more.

result
