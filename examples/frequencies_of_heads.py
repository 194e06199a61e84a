"""Which frequencies does each head of a model rely on?
=====================================================

The lengths of the pairs of a query and a key can be read off the weights: for white input, each is
known without running the model. Here, head 0 is made to look at the token before with fast pairs,
and head 1 to find what it means with slow ones (Barbero et al. 2024, arXiv:2410.06205).
"""

import tempfile
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

import ropecli

random = np.random.default_rng(0)
heads, dim = 4, 64
rows = random.standard_normal((2, heads, dim, 128)).astype(np.float32)  # of W_q and W_k
fast, slow = [0, 1, 32, 33], [28, 29, 60, 61]  # layout half: coordinates i and i + 32 are a pair
rows[:, 0, fast] *= 6
rows[:, 1, slow] *= 6

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder, "model.safetensors")
    layer = "model.layers.0.self_attn"
    q, k = rows.reshape(2, -1, 128)
    save_file({f"{layer}.q_proj.weight": q, f"{layer}.k_proj.weight": k}, path)
    rope = ropecli.Rotary(head_dim=dim, layout="half")
    found = ropecli.usage_of_weights(rope, path, heads=heads)

picture = found.figure()
picture.savefig("frequencies_of_heads.png")
picture

# %%
# The largest pair of each head, and the shares of fast, middle and slow pairs:

for head in range(heads):
    shares = ", ".join(f"{share:.0%}" for share in found.thirds[0, head])
    print(f"head {head}: pair {found.peak[0, head]}; {shares}")
