"""What do RoPE, ALiBi and T5 do to the same tokens?
=================================================

The same random tokens under three encodings. RoPE rotates queries and keys, ALiBi and T5 add a bias
to the score. None of them sees absolute positions.
"""

import ropecli

names = ("rope", "alibi", "t5")
result = ropecli.scores([ropecli.encoding(name, seed=0) for name in names], queries=24, keys=24)
picture = result.figure()
picture.savefig("encodings_compared.png")
picture

# %%
# The invariances that theory gives them were measured as well:

result
