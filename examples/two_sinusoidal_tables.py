"""Are these two sinusoidal tables the same encoding?
===================================================

The paper interleaves sines and cosines and divides exponents by d. Whisper, like tensor2tensor,
puts all sines first and divides by d - 2. Both are called sinusoidal, and a model that was trained
with one reads the other as noise.
"""

import matplotlib.pyplot as plt
import numpy as np
from numpy.typing import NDArray

import ropecli


def paper(length: int, dim: int) -> NDArray[np.float64]:
    """RoFormer Eq. 4: sines and cosines in turns."""
    angle = np.arange(length)[:, None] / 10_000.0 ** (2 * np.arange(dim // 2) / dim)
    return np.stack([np.sin(angle), np.cos(angle)], axis=-1).reshape(length, dim)


def whisper(length: int, dim: int) -> NDArray[np.float64]:
    """All sines, then all cosines."""
    angle = np.arange(length)[:, None] / 10_000.0 ** (2 * np.arange(dim // 2) / (dim - 2))
    return np.concatenate([np.sin(angle), np.cos(angle)], axis=-1)


picture, axes = plt.subplots(1, 2, figsize=(6.4, 3.2), layout="constrained", sharey=True)
for ax, table in zip(axes, (paper, whisper), strict=True):
    ax.imshow(table(64, 32), aspect="auto", cmap="RdBu")
    ax.set_title(table.__name__)
    ax.set_xlabel("column")
axes[0].set_ylabel("position")
picture.savefig("two_sinusoidal_tables.png")
picture

# %%
# The code of both passes, and the verdict names the variant. A test that wants one of them says so
# with `set={"order": "interleaved"}`, and the other one fails.

print(ropecli.check(whisper, encoding="sinusoidal"))

# %%
# Of a table without code, the numbers tell as much:

ropecli.identify_table(whisper(64, 32))
