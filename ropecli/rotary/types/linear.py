"""Position interpolation: every frequency divided by one factor."""

from __future__ import annotations

from ropecli.rotary.rotary import Rotary, positive
from ropecli.rotary.types.default import default


def linear(
    *,
    head_dim: int,
    factor: float,
    rope_theta: float = 10_000.0,
    rotary_dim: int | None = None,
    layout: str = "interleaved",
) -> Rotary:
    """RoPE for a context `factor` times longer (Chen et al. 2023, arXiv:2306.15595, Eq. 4).

    The paper divides positions; dividing frequencies is the same rotation.

    Args:
        head_dim: As in `default`.
        factor: Wanted context length over the trained one, finite and above 0.
        rope_theta: As in `default`.
        rotary_dim: As in `default`.
        layout: As in `default`.

    Raises:
        ArgumentError: A value that is not allowed.
        ArgumentTypeError: An argument of the wrong type.
    """
    plain = default(head_dim=head_dim, rope_theta=rope_theta, rotary_dim=rotary_dim, layout=layout)
    return Rotary.from_inv_freq(
        plain.inv_freq / positive("factor", factor),
        head_dim=head_dim,
        layout=layout,
        base=plain.base,
        rope_type="linear",
    )
