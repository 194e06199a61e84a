"""What does an upside-down YaRN ramp do?
======================================

YaRN keeps fast pairs and slows the others down. litgpt 0.5.13 does it the other way round: its ramp
runs from slow to fast. Norms stay right and scores depend only on distance, so that only a
comparison with independent frequencies shows it. The case studies run litgpt's own code.
"""

import numpy as np

import ropecli

plain = ropecli.Rotary(head_dim=64)
yarn = ropecli.rope("yarn", head_dim=64, factor=40.0, original_max_position_embeddings=4096)

slowed = plain.inv_freq / 40
ramp = (plain.inv_freq - yarn.inv_freq) / (plain.inv_freq - slowed)  # 0: kept, 1: slowed
swapped = ropecli.Rotary.from_inv_freq(plain.inv_freq * ramp + slowed * (1 - ramp))

curves = [
    ropecli.frequency_table(rope, context_length=4096, name=name)
    for name, rope in (("YaRN", yarn), ("upside down", swapped), ("unscaled", plain))
]
picture = curves[0].figure(*curves[1:])
picture.savefig("yarn_upside_down.png")
picture

# %%
# From vectors and their rotation alone:

x = np.random.default_rng(0).standard_normal((4, 512, 64))
found = ropecli.identify(x, ropecli.rotate(x, swapped), candidates={"the model": yarn})
found
