"""Does ropecli's bound lie on RoFormer's Figure 2?
================================================

The upper bound on RoPE's inner product, drawn in the paper's own frame and compared with three
points that were read off the printed curve. The drawing is clipped at 19.75: the curve itself
begins at 32.5, which is (d / 2 + 1) / 2.
"""

import numpy as np

import ropecli

rope = ropecli.Rotary(head_dim=128)
curve = ropecli.decay(rope, max_distance=256, step=0.001)
for distance, printed in ((32.541, 13.208), (108.397, 10.098), (214.736, 8.495)):
    bound = np.interp(distance, curve.relative_distance, curve.relative_upper_bound)
    print(f"distance {distance:7.3f}   printed {printed:6.3f}   computed {bound:6.3f}")
    assert abs(bound - printed) < 2e-3  # how exactly the paper's drawing can be read
print("at distance 0:", curve.start)

picture = curve.figure(figure2=True)
picture.savefig("figure2.png")
picture
