"""How does my CUDA kernel get into CI?
====================================

As a function of x and positions, whatever it is bound with: ctypes, pybind11 or torch.ops. This one
stands for a kernel that takes its angles in float32, as most do. The test of the project is::

    def test_rope(rope_check):
        rope_check(my_extension.rope, model="config.json")
"""

import numpy as np
from matplotlib.figure import Figure

import ropecli

expected = ropecli.Rotary(head_dim=128, layout="half")


def kernel(x: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """Return x rotated in halves: one thread a pair, its angle in float32."""
    inv_freq = np.float32(10_000) ** (-np.arange(64, dtype=np.float32) / 64)
    angle = positions.astype(np.float32)[..., None] * inv_freq
    cos, sin, a, b = np.cos(angle), np.sin(angle), x[..., :64], x[..., 64:]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1).astype(x.dtype)


positions = np.unique(np.geomspace(1, 2**20, 200).astype(int))
x = np.random.default_rng(0).standard_normal((len(positions), 128)).astype(np.float32)
exact = ropecli.rotate(x.astype(float), expected, positions)
error = np.abs(kernel(x, positions) - exact).max(axis=1)
print(f"largest error up to {positions[-1]:,}: {error.max():.1g}")

picture = Figure(layout="constrained")
axes = picture.subplots()
axes.loglog(positions, error, ".")
axes.set(xlabel="position", ylabel="largest error of a coordinate")
picture.savefig("cuda_kernel_in_ci.png")
picture

# %%
# The verdict that the job prints:

verdict = ropecli.check(kernel, expect=expected, dtypes="float32", context_length=8192)
assert verdict.passed
verdict
