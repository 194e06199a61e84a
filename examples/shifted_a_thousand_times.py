"""What is left of keys that a cache shifts a thousand times?
==========================================================

A chat that outgrows its context may drop the oldest tokens and rotate the remaining keys to lower
positions, one step for each new token. Rotations add up, and so do their roundings: bfloat16 has 8
significant bits, and a slow pair turns by less than half a unit of the last one. Its keys stay
where they are.
"""

import ropecli

rope = ropecli.Rotary(head_dim=128)
result = ropecli.cache_shift(rope, shift=-1, times=1000, dtype="bfloat16")

picture = result.figure()
picture.savefig("shifted_a_thousand_times.png")
picture

# %%
# The same in one shift, and in float32:

once = ropecli.cache_shift(rope, shift=-1000, times=1)
wide = ropecli.cache_shift(rope, shift=-1, times=1000, dtype="float32")
print(f"{result.key_error:.1%} a step at a time, {once.key_error:.2%} at once")
print(f"{wide.key_error:.1e} in float32")

# %%
# An attention factor, such as YaRN's, is in the keys already. A shift by the model's own cos and
# sin would apply it again.

yarn = ropecli.rope("yarn", head_dim=128, factor=16.0, original_max_position_embeddings=4096)
print(ropecli.cache_shift(yarn).reason)
