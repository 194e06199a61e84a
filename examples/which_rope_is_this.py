"""Which RoPE is this? A rotation is known by what it does to vectors, whoever wrote it."""

import numpy as np

import ropecli


def somebody_elses(x: np.ndarray) -> np.ndarray:
    """The last 64 of 128 coordinates, in halves, base 500,000, with tables of float32."""
    pairs = np.arange(32, dtype=np.float32)
    inv_freq = (1 / 500_000 ** (pairs / 32)).astype(np.float32)
    angles = np.arange(x.shape[-2], dtype=np.float32)[:, None] * inv_freq
    cos, sin = np.cos(angles), np.sin(angles)
    still, a, b = x[..., :64], x[..., 64:96], x[..., 96:]
    return np.concatenate([still, a * cos - b * sin, b * cos + a * sin], axis=-1)


before = np.random.default_rng(0).standard_normal((4, 512, 128)).astype(np.float32)
found = ropecli.identify(before, somebody_elses(before))
assert found.recognised
assert found.rotary is not None
print(f"{found.rotary}, {found.precision}")
print(f"within {found.max_residual:.2g} ulp of {found.dtype}")
print("best match:", found.matches[0].name)

again = ropecli.rotate(before, found.rotary, found.positions)
print(f"made again, off by at most {np.abs(again - somebody_elses(before)).max():.1g}")

scaled = somebody_elses(before) * np.linspace(1, 2, 512, dtype=np.float32)[:, None]
print("and this:", ropecli.identify(before, scaled).reason)
