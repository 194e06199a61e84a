"""Frequency tables from their printed formulas, in mpmath: a function for each rope type.

Each takes dim, the denominator of the exponents, and base, then the type's parameters by their
names in config.json, and gives theta_0, theta_1, ... pair by pair. Written from the papers, with
wavelengths and turns spelt out, not from the code that is judged.
"""

from __future__ import annotations

from collections.abc import Sequence

from mpmath import mp, mpf

DIGITS = 40


def default(*, dim: int, base: float) -> list[mpf]:
    """theta_i = base^(-2i/d), i from 0 (RoFormer Eq. 15, whose i runs from 1)."""
    with mp.workdps(DIGITS):
        return [mpf(base) ** (-2 * mpf(i) / dim) for i in range((dim + 1) // 2)]


def linear(*, dim: int, base: float, factor: float) -> list[mpf]:
    """Position interpolation: f(x, m L/L') turns by m theta_i L/L' (arXiv:2306.15595, Eq. 4)."""
    with mp.workdps(DIGITS):
        return [theta / mpf(factor) for theta in default(dim=dim, base=base)]


def ntk(*, dim: int, base: float, factor: float) -> list[mpf]:
    """b' = b s^(d/(d-2)) (arXiv:2309.00071, Eq. 16)."""
    with mp.workdps(DIGITS):
        larger = mpf(base) * mpf(factor) ** (mpf(dim) / (dim - 2))
        return [larger ** (-2 * mpf(i) / dim) for i in range((dim + 1) // 2)]


def ntk_mixed(*, dim: int, base: float, factor: float, mixed_b: float = 1.0) -> list[mpf]:
    """theta_i e^(-a i^b), i from 1, with a (d/2)^b = ln k (kexue.fm/archives/9706)."""
    with mp.workdps(DIGITS):
        a = mp.log(mpf(factor)) / (mpf(dim) / 2) ** mpf(mixed_b)
        plain = default(dim=dim, base=base)
        return [theta * mp.exp(-a * mpf(i) ** mpf(mixed_b)) for i, theta in enumerate(plain, 1)]


def dynamic(
    *,
    dim: int,
    base: float,
    factor: float | None = None,
    max_position_embeddings: int | None = None,
    sequence_length: int | None = None,
    alpha: float | None = None,
) -> list[mpf]:
    """NTK by the stretch s L / Lmax - (s - 1) of the length in use, or by alpha."""
    with mp.workdps(DIGITS):
        if alpha is not None:
            return ntk(dim=dim, base=base, factor=alpha)
        assert factor is not None
        assert max_position_embeddings is not None
        used = max(sequence_length or 0, max_position_embeddings)
        stretch = mpf(factor) * used / max_position_embeddings - (mpf(factor) - 1)
        return ntk(dim=dim, base=base, factor=stretch)


def ntk_by_parts(
    *,
    dim: int,
    base: float,
    factor: float,
    original_max_position_embeddings: int,
    beta_fast: float = 32.0,
    beta_slow: float = 1.0,
) -> list[mpf]:
    """(1 - gamma(r)) theta / s + gamma(r) theta, r = L / lambda (arXiv:2309.00071, Eq. 17-20)."""
    with mp.workdps(DIGITS):
        table = []
        for theta in default(dim=dim, base=base):
            wavelength = 2 * mp.pi / theta
            turns = original_max_position_embeddings / wavelength
            if turns < beta_slow:
                gamma = mpf(0)
            elif turns > beta_fast:
                gamma = mpf(1)
            else:
                gamma = (turns - mpf(beta_slow)) / (mpf(beta_fast) - mpf(beta_slow))
            table.append((1 - gamma) * theta / mpf(factor) + gamma * theta)
        return table


def yarn(
    *,
    dim: int,
    base: float,
    original_max_position_embeddings: int,
    factor: float | None = None,
    max_position_embeddings: int | None = None,
    beta_fast: float | None = None,
    beta_slow: float | None = None,
    truncate: bool = True,
    ramp: str = "code",
    **_attention: float,
) -> list[mpf]:
    """The released YaRN: pair i is interpolated by the share of (i - low) in (high - low).

    The pair that turns beta times within L solves L theta_i = 2 pi beta for i.
    """
    with mp.workdps(DIGITS):
        fast, slow = mpf(beta_fast or 32), mpf(beta_slow or 1)
        if factor is None:
            assert max_position_embeddings is not None
            scale = mpf(max_position_embeddings) / original_max_position_embeddings
        else:
            scale = mpf(factor)
        if ramp == "paper":
            return ntk_by_parts(
                dim=dim,
                base=base,
                factor=scale,
                original_max_position_embeddings=original_max_position_embeddings,
                beta_fast=fast,
                beta_slow=slow,
            )
        ends = [
            dim
            * mp.log(original_max_position_embeddings / (2 * mp.pi * beta))
            / (2 * mp.log(mpf(base)))
            for beta in (fast, slow)
        ]
        low, high = (mp.floor(ends[0]), mp.ceil(ends[1])) if truncate else ends
        low, high = max(low, mpf(0)), min(high, mpf(dim - 1))
        width = mpf("0.001") if low == high else high - low
        table = []
        for i, theta in enumerate(default(dim=dim, base=base)):
            share = min(max((i - low) / width, mpf(0)), mpf(1))
            table.append(share * theta / scale + (1 - share) * theta)
        return table


def deepseek_yarn(
    *, dim: int, base: float, factor: float, original_max_position_embeddings: int, **other: float
) -> list[mpf]:
    """The frequencies are YaRN's."""
    return yarn(
        dim=dim,
        base=base,
        factor=factor,
        original_max_position_embeddings=original_max_position_embeddings,
        beta_fast=other.get("beta_fast"),
        beta_slow=other.get("beta_slow"),
    )


telechat3_yarn = deepseek_yarn


def longrope(
    *,
    dim: int,
    base: float,
    short_factor: Sequence[float],
    long_factor: Sequence[float],
    original_max_position_embeddings: int,
    sequence_length: int | None = None,
    **_attention: float,
) -> list[mpf]:
    """theta_i / e_i, e by whether the sequence is longer than L0 (arXiv:2402.13753, Eq. 2)."""
    with mp.workdps(DIGITS):
        is_long = (sequence_length or 0) > original_max_position_embeddings
        factors = long_factor if is_long else short_factor
        plain = default(dim=dim, base=base)
        return [theta / mpf(e) for theta, e in zip(plain, factors, strict=True)]


def llama3(
    *,
    dim: int,
    base: float,
    factor: float,
    low_freq_factor: float,
    high_freq_factor: float,
    original_max_position_embeddings: int,
) -> list[mpf]:
    """By wavelength: above L0/low interpolated, below L0/high kept, smoothed between."""
    with mp.workdps(DIGITS):
        longest = original_max_position_embeddings / mpf(low_freq_factor)
        shortest = original_max_position_embeddings / mpf(high_freq_factor)
        table = []
        for theta in default(dim=dim, base=base):
            wavelength = 2 * mp.pi / theta
            if wavelength > longest:
                table.append(theta / mpf(factor))
            elif wavelength < shortest:
                table.append(theta)
            else:
                low, high = mpf(low_freq_factor), mpf(high_freq_factor)
                smooth = (original_max_position_embeddings / wavelength - low) / (high - low)
                table.append((1 - smooth) * theta / mpf(factor) + smooth * theta)
        return table


def proportional(
    *, dim: int, base: float, partial_rotary_factor: float = 1.0, factor: float = 1.0
) -> list[mpf]:
    """The first p d/2 of d/2 pairs, rounded down, rotate as in a whole head; the others do not."""
    with mp.workdps(DIGITS):
        turning = int(mp.floor(mpf(partial_rotary_factor) * dim / 2))
        plain = default(dim=dim, base=base)
        return [
            theta / mpf(factor) if i < turning else mpf(0)
            for i, theta in enumerate(plain[: dim // 2])
        ]


def p_rope(*, dim: int, base: float, p: float) -> list[mpf]:
    """By timescales base^(2i/d), infinite beyond the first p d/2 of them, rounded down (App. D)."""
    with mp.workdps(DIGITS):
        rotated = int(mp.floor(mpf(p) * dim / 2))
        scales = [mpf(base) ** (2 * mpf(i) / dim) for i in range(rotated)]
        scales += [mp.inf] * (dim // 2 - rotated)
        return [1 / scale for scale in scales]


def axial(
    *,
    dim: int,
    base: float,
    axes: int = 2,
    take_turns: bool = False,
    deal_out: bool = False,
    sections: Sequence[int] | None = None,
    axis_order: Sequence[int] | None = None,
    patches: Sequence[int] | None = None,
) -> list[mpf]:
    """Each axis has its own table, over an equal share of the pairs.

    Dealt out, axis a has theta_a, theta_(a + axes), ... of one table over the head instead. Where
    axes take turns, the first pairs of all of them come before the second ones. Sections say how
    many pairs each axis has of a table as long as these. The centre of patch m of N is at
    2 pi (2 (m + 1/2) / N - 1), so that a step to the next one is 4 pi / N.
    """
    order = list(axis_order or range(axes))
    steps = [4 * mp.pi / patches[axis] if patches else mpf(1) for axis in order]
    pairs = dim // 2 // axes
    sizes = [sections[axis] if sections else pairs for axis in order]
    tables = [default(dim=2 * size, base=base) for size in sizes]
    if deal_out:
        tables = [default(dim=dim, base=base)[a : pairs * axes : axes] for a in range(axes)]
    tables = [[step * theta for theta in own] for step, own in zip(steps, tables, strict=True)]
    if take_turns:
        return [theta for same_place in zip(*tables, strict=True) for theta in same_place]
    return [theta for table in tables for theta in table]


def xpos(*, dim: int, base: float, **_growth: float) -> list[mpf]:
    """The angles are plain RoPE's (arXiv:2212.10554)."""
    return default(dim=dim, base=base)
