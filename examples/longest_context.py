"""How long a context can a base hold?
===================================

A key like the query scores above a random one as long as the sum of the pairs' cosines is positive
(Men et al. 2024). For each base it first turns negative at some distance.
"""

import ropecli

models = (("Llama 2", 10_000.0, 4096), ("Llama 3", 500_000.0, 8192), ("1e8", 1e8, 131_072))
bounds = [
    ropecli.base_bound(ropecli.Rotary(head_dim=128, base=base), context_length=length, name=name)
    for name, base, length in models
]
picture = bounds[0].figure(*bounds[1:])
picture.savefig("longest_context.png")
picture

# %%
# The base of Llama 3, in numbers:

bounds[1]
