"""Which pairs have never turned in training?
==========================================

A pair whose wavelength is longer than the context has not come round once. Every longer context
shows the model angles that are new to it.
"""

import ropecli

models = (("Llama 2", 128, 10_000.0, 4096), ("Llama 3", 128, 500_000.0, 8192))
spans = [
    ropecli.frequency_table(ropecli.Rotary(dim, base=base), context_length=length, name=name)
    for name, dim, base, length in models
]
picture = spans[0].figure(*spans[1:])
picture.savefig("turns_in_training.png")
picture

# %%
# Llama 2 in numbers:

spans[0]
