"""Why is RoPE called relative? One query, one key, many places: the score knows the gap only."""

import numpy as np

import ropecli

rope = ropecli.Rotary(head_dim=64)
q, k = np.random.default_rng(0).standard_normal((2, 64))


def score(m: float, n: float) -> float:
    """(R_m q).(R_n k)."""
    turned = ropecli.rotate(np.stack([q, k]), rope, positions=[m, n])
    return float(turned[0] @ turned[1])


for gap in (0, 1, 16, 256):
    at = [score(n + gap, n) for n in (0, 7, 1000, 100_000)]
    print(f"gap {gap:4}   {'  '.join(f'{value:+.9f}' for value in at)}")
    assert np.ptp(at) < 1e-9  # the angle's rounding: 1e5 rad * 1.2e-16 * |q||k|
