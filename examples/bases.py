"""What does a larger base do to the bound?
========================================

The curves of three models' bases in one figure. A larger base turns the slow pairs less, and the
bound falls later.
"""

import ropecli

curves = [
    ropecli.decay(ropecli.Rotary(head_dim=128, base=base), max_distance=1024)
    for base in (10_000.0, 500_000.0, 1_000_000.0)
]
for curve in curves:
    lowest, where = curve.lowest
    print(f"base {curve.rope.base:9,.0f}   halved by {curve.halved_at:5.0f}   "
          f"lowest {lowest:5.2f} at {where:,.0f}")  # fmt: skip

picture = curves[0].figure(*curves[1:])
picture.savefig("bases.png")
picture
