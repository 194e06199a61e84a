"""Do positions restart where sequences are packed?
================================================

A trainer that packs documents into one row must count positions within each. Where it counts on,
the second document is rotated as if it stood behind the first, and the loss rises silently.
"""

import numpy as np

import ropecli

lengths = [700, 300, 1048]
ids = np.arange(2048)  # what a trainer passes as position_ids
found = ropecli.positions(ids, lengths=lengths)

picture = found.figure()
picture.savefig("positions_of_packed_sequences.png")
picture

# %%
# The cause is found by making each mistake that is known.

found

# %%
# The vectors say by which positions they were really rotated, whatever was passed.

rope = ropecli.Rotary(head_dim=64)
q = np.random.default_rng(0).standard_normal((8, 2048, 64)).astype("float32")
recovered = ropecli.recover_positions(rope, q, ropecli.rotate(q, rope, ids))
ropecli.positions(recovered, lengths=lengths)
