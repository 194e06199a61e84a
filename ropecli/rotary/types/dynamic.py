"""Dynamic NTK: a base that grows with the sequence."""

from __future__ import annotations

from ropecli.errors import ArgumentError
from ropecli.numbers import length, positive, stretched_base
from ropecli.rotary.frequencies import Table, plain


def dynamic(
    *,
    dim: int,
    base: float,
    factor: float | None = None,
    max_position_embeddings: int | None = None,
    sequence_length: int | None = None,
    alpha: float | None = None,
) -> Table:
    """base * (factor L / Lmax - factor + 1)^(d/(d-2)), L = max(sequence length, Lmax).

    It is emozilla's (2023), as in Transformers, where Lmax is max_position_embeddings and never
    the original length. Keys in a cache keep the base they were rotated with. Given `alpha`
    (HunYuan), the base is base * alpha^(d/(d-2)) at every length; other parameters are ignored.

    Args:
        dim: Denominator of the exponents, at least 4.
        base: The base before stretching.
        factor: Finite and above 0.
        max_position_embeddings: Lmax, at least 1.
        sequence_length: Positions in use; Lmax by default, which leaves the base unchanged.
        alpha: A fixed stretch, finite and above 0.
    """
    if alpha is not None:
        stretch = positive("alpha", alpha)
    else:
        if factor is None or max_position_embeddings is None:
            raise ArgumentError(
                "rope type dynamic needs factor and max_position_embeddings, or alpha"
            )
        scale = positive("factor", factor)
        longest = length("max_position_embeddings", max_position_embeddings)
        used = longest if sequence_length is None else length("sequence_length", sequence_length)
        stretch = scale * max(used, longest) / longest - (scale - 1)
    larger = stretched_base(base, stretch, dim)
    return Table(inv_freq=plain(larger, dim), base=larger)
