"""What does a layout mix-up look like? Norms and relative scores stay right; the scores do not."""

import numpy as np

import ropecli

interleaved = ropecli.Rotary(head_dim=64, layout="interleaved")
half = ropecli.Rotary(head_dim=64, layout="half")
q, k = np.random.default_rng(0).standard_normal((2, 64))


def score(rope: ropecli.Rotary, m: int, n: int) -> float:
    """(R_m q).(R_n k)."""
    turned = ropecli.rotate(np.stack([q, k]), rope, positions=[m, n])
    return float(turned[0] @ turned[1])


print("            m=5 n=2    m=105 n=102")
for rope in (interleaved, half):
    print(f"{rope.layout:11} {score(rope, 5, 2):+.6f}   {score(rope, 105, 102):+.6f}")

verdict = ropecli.verify(
    interleaved, dtype="float64", rotate=lambda x, p: ropecli.rotate(x, half, positions=p)
)
for check in verdict.checks:
    if check.passed is False:
        print("FAIL", check.name, "--", check.note or check.counterexample)
assert not verdict.passed
