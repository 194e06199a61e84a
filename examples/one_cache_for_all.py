"""What does a cache without the base in its key do?
=================================================

equinox 0.13.8 keeps its tables of cos and sin for the whole process, by size and dtype. A second
module with another theta gets the tables of the first. One module alone is right; ``check`` makes
two.
"""

import numpy as np
from matplotlib.figure import Figure

import ropecli

TABLES: dict[int, np.ndarray] = {}


class Rotary:
    """Rotate x (sequence, dim) in halves by tables that are made once for each dim."""

    def __init__(self, dim: int = 64, theta: float = 10_000.0) -> None:
        self.dim, self.theta = dim, theta

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Return x rotated, from position 0."""
        if self.dim not in TABLES or len(TABLES[self.dim]) < len(x):  # theta is missing here
            theta = self.theta ** (-2 * np.arange(self.dim // 2) / self.dim)
            TABLES[self.dim] = np.exp(1j * np.outer(np.arange(len(x)), theta))
        a, b = np.split(x, 2, axis=-1)
        turned = (a + 1j * b) * TABLES[self.dim][: len(x)]
        return np.concatenate([turned.real, turned.imag], axis=-1).astype(x.dtype)


x = np.random.default_rng(0).standard_normal((512, 64))
picture = Figure(layout="constrained")
axes = picture.subplots()
for theta, line in ((10_000.0, "-"), (1_000_000.0, "--")):
    off = np.abs(
        Rotary(64, theta)(x)
        - ropecli.rotate(x, ropecli.Rotary(head_dim=64, base=theta, layout="half"))
    )
    axes.plot(off.max(axis=1), line, label=f"theta {theta:,.0f}")
    print(f"theta {theta:9,.0f}: off by up to {off.max():.1g}")
axes.set(xlabel="position", ylabel="largest error of a coordinate")
picture.legend(loc="outside lower center", ncols=2)
picture.savefig("one_cache_for_all.png")
picture
