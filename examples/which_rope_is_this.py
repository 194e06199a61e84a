"""Which RoPE is this dump?
========================

A rotation is known by what it does to vectors, whoever wrote it. Here somebody rotated the last 64
of 128 coordinates, in halves, with a base of 500,000 and tables of float32, and left no note.
"""

import numpy as np

import ropecli


def by_somebody_else(x: np.ndarray) -> np.ndarray:
    """Return x, rotated in a way that is not written down anywhere else."""
    inv_freq = (1 / 500_000 ** (np.arange(32, dtype=np.float32) / 32)).astype(np.float32)
    angles = np.arange(x.shape[-2], dtype=np.float32)[:, None] * inv_freq
    cos, sin = np.cos(angles), np.sin(angles)
    still, a, b = x[..., :64], x[..., 64:96], x[..., 96:]
    return np.concatenate([still, a * cos - b * sin, b * cos + a * sin], axis=-1)


before = np.random.default_rng(0).standard_normal((4, 512, 128)).astype(np.float32)
after = by_somebody_else(before)
found = ropecli.identify(before, after)
assert found.rotary is not None
again = ropecli.rotate(before, found.rotary, found.positions)
print(f"made again, off by at most {np.abs(again - after).max():.1g}")

plain = ropecli.frequency_table(ropecli.Rotary(head_dim=64), context_length=512, name="base 10,000")
picture = ropecli.frequency_table(found.rotary, context_length=512, name="the dump").figure(plain)
picture.savefig("which_rope_is_this.png")
picture

# %%
# All that is known of it now:

found
