"""The RoPE family as data, and its application to arrays.

`Rotary` is what everything else takes: frequencies, pairs of coordinates, direction, attention
factor. `types` has one file per rope type and says how the frequencies come about; `apply`
rotates arrays and is imported only where that is wanted, since it brings Numba in.
"""

from ropecli.rotary.by_name import rope
from ropecli.rotary.rotary import Rotary

__all__ = ["Rotary", "rope"]
