"""Plain RoPE: base^(-2i/rotary_dim) for pair i (RoFormer Eq. 15)."""

from __future__ import annotations

from ropecli.rotary.rotary import Rotary


def default(
    *,
    head_dim: int,
    rope_theta: float = 10_000.0,
    rotary_dim: int | None = None,
    layout: str = "interleaved",
) -> Rotary:
    """The encoding of the paper (Su et al. 2021, arXiv:2104.09864).

    Args:
        head_dim: Coordinates of one head's vector, even, at least 2.
        rope_theta: The base, under its name in config.json.
        rotary_dim: Coordinates that are rotated, even; all of head_dim by default.
        layout: "interleaved" or "half".

    Raises:
        ArgumentError: A value that is not allowed.
        ArgumentTypeError: An argument of the wrong type.
    """
    return Rotary(head_dim=head_dim, base=rope_theta, rotary_dim=rotary_dim, layout=layout)
