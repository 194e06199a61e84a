"""What does a larger base do to the bound? The curves of three models' bases in one figure."""

import ropecli

curves = [
    ropecli.decay(ropecli.Rotary(head_dim=128, base=base), max_distance=8192, step=4)
    for base in (10_000.0, 500_000.0, 1_000_000.0)
]
for curve in curves:
    lowest, where = curve.lowest
    print(f"base {curve.rope.base:9,.0f}   halved by {curve.halved_at:5.0f}   "
          f"lowest {lowest:5.2f} at {where:,.0f}")  # fmt: skip
curves[0].figure(*curves[1:]).savefig("bases.png")
