"""Laws of encodings that add, rotate or count positions: sinusoidal, RoPE, xPos, NoPE, CoPE."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ropecli.checks.encoding_laws.subject import LAST, compare, law
from ropecli.encodings import encoding as make_encoding
from ropecli.encodings.types.sinusoidal import Sinusoidal
from ropecli.encodings.types.xpos import Xpos
from ropecli.units import DOUBLE

if TYPE_CHECKING:
    from ropecli.checks.encoding_laws.subject import Array, EncodingSubject
    from ropecli.checks.law import Outcome

ANGLES = "an angle has a rounding of its frequency, its product and its sine: 4 x 2^-53 of it"
ANGLES_OF_SUM = f"{ANGLES}, in each of d products"
XPOS_SECTION = "xPos section 3.2"
SHIFT = 37  #: Positions by which tokens are moved.
SHUT = 1000.0  #: A logit of -1000 shuts a gate: sigmoid is below the least float64.


def _angles(subject: EncodingSubject, positions: Array) -> Array:
    half = subject.encoding.sizes.model_dim // 2
    return np.outer(positions, 10_000.0 ** (-np.arange(half) / half))


def _code(subject: EncodingSubject, positions: Array) -> Array:
    assert isinstance(subject.encoding, Sinusoidal)
    return subject.encoding.code(positions)


def _shift_is_rotation(subject: EncodingSubject) -> Outcome:
    """M_k rotates each pair (sin, cos) by k theta."""
    turn = _angles(subject, subject.n)
    sine, cosine = np.sin(turn), np.cos(turn)
    here = _code(subject, subject.m)
    expected = np.empty_like(here)
    expected[:, 0::2] = cosine * here[:, 0::2] + sine * here[:, 1::2]
    expected[:, 1::2] = cosine * here[:, 1::2] - sine * here[:, 0::2]
    # Angles of m, k and m + k, which is at most twice the last; their parts are at most 1.
    got = _code(subject, subject.m + subject.n)
    return compare(got, expected, DOUBLE * (4 * 4 * LAST + 8))


def _length_is_constant(subject: EncodingSubject) -> Outcome:
    dim = subject.encoding.sizes.model_dim
    # A sine's and a cosine's rounding, of squares that add up to 1, and d sums.
    got = (_code(subject, subject.m) ** 2).sum(axis=1)
    return compare(got, np.full(len(got), dim / 2), DOUBLE * dim * (dim + 4))


def _product_is_relative(subject: EncodingSubject) -> Outcome:
    dim = subject.encoding.sizes.model_dim
    got = _code(subject, subject.m) @ _code(subject, subject.n).T
    distance = (subject.m[:, None] - subject.n).ravel()
    expected = np.cos(_angles(subject, distance)).sum(axis=1).reshape(got.shape)
    return compare(got, expected, DOUBLE * dim * (4 * 2 * LAST + dim + 4))


def _relative_with_identity_weights(subject: EncodingSubject) -> Outcome:
    """W_q = W_k = I: one head as wide as the token."""
    dim = subject.encoding.sizes.model_dim
    one_head = replace(subject.encoding.sizes, heads=1, head_dim=dim)
    identity = {"query": np.eye(dim)[None], "key": np.eye(dim)[None]}
    tied = replace(subject.encoding, sizes=one_head, weights=identity)
    return _position_part_is_relative(replace(subject, encoding=tied))


def _position_part_is_relative(subject: EncodingSubject) -> Outcome:
    zeros, m, n = subject.zeros, subject.m, subject.n
    here = subject.scores(zeros, zeros, m, n)
    there = subject.scores(zeros, zeros, m + SHIFT, n + SHIFT)
    return compare(there, here, 2 * subject.rounding(here, LAST + SHIFT))


def _bound_falls(subject: EncodingSubject) -> Outcome:
    """|S| <= sum |q_i||k_i| zeta_i^(r / scale_base) / sqrt(d), i over pairs, r = m - n >= 0."""
    encoding = subject.encoding
    assert isinstance(encoding, Xpos)
    dim = encoding.sizes.head_dim
    m = subject.m.max() + subject.m
    scores = subject.scores(m=m, n=subject.m)
    distance = np.maximum(m[:, None] - subject.m, 0.0)
    zeta = (np.arange(0, dim, 2) / dim + encoding.gamma) / (1 + encoding.gamma)
    shrunk = zeta ** (distance[..., None] / encoding.scale_base)
    # The norm of each pair of coordinates: (heads, tokens, d/2).
    q, k = (
        np.linalg.norm((each @ encoding.weights[name]).reshape(-1, len(each), dim // 2, 2), axis=3)
        for each, name in ((subject.x, "query"), (subject.y, "key"))
    )
    bound = np.einsum("hmi,hni,mni->hmn", q, k, shrunk) / np.sqrt(dim)
    tolerance = subject.rounding(scores, float(m.max()))
    return compare(np.maximum(np.abs(scores), bound), bound, tolerance)


def _equals_rope(subject: EncodingSubject) -> Outcome:
    """RoPE on the same weights has the same scores."""
    sizes = subject.encoding.sizes
    rope = make_encoding(
        "rope",
        model_dim=sizes.model_dim,
        heads=sizes.heads,
        head_dim=sizes.head_dim,
        weights=subject.encoding.weights,
    )
    got = subject.scores()
    expected = rope.scores(subject.x, subject.y, subject.m, subject.n)
    return compare(got, expected, 2 * subject.rounding(got))


def _keys_permute(subject: EncodingSubject) -> Outcome:
    """Keys that change places while the positions stay."""
    here = subject.scores()
    there = subject.scores(y=subject.y[::-1])[:, :, ::-1]
    return compare(there, here, 2 * subject.rounding(here))


def _shut_key_is_not_counted(subject: EncodingSubject) -> Outcome:
    """A key whose logit is -SHUT with the query, in every head."""
    weights = subject.encoding.weights
    query = subject.x[0] @ weights["query"]
    against = np.einsum("hd,hcd->hc", query, weights["key"])
    sizes = np.full(len(against), -SHUT)
    return _insert(subject, np.linalg.lstsq(against, sizes, rcond=None)[0])


def _any_key_is_not_counted(subject: EncodingSubject) -> Outcome:
    return _insert(subject, subject.y[-1])


def _insert(subject: EncodingSubject, key: Array) -> Outcome:
    """Compare the other keys' scores with the first query, before and after a key is inserted."""
    count = len(subject.y)
    middle, last = count // 2, np.array([float(count)])
    here = subject.scores(x=subject.x[:1], m=last, n=np.arange(float(count)))
    longer = np.insert(subject.y, middle, key, axis=0)
    there = subject.scores(subject.x[:1], longer, last, np.arange(count + 1.0))
    return compare(np.delete(there, middle, axis=2), here, 2 * subject.rounding(here, count))


SINUSOIDAL = (
    law("p_(m+k) = M_k p_m", "4", _shift_is_rotation, because=ANGLES),
    law("|p_m|^2 = d/2", "4", _length_is_constant, because="d roundings of d squares"),
    law("p_m . p_n = sum cos((m-n) theta)", "4", _product_is_relative, because=ANGLES_OF_SUM),
    law("position part is relative, W_q = W_k = I", "3", _relative_with_identity_weights),
    law(
        "position part is relative, any W_q, W_k", "3", _position_part_is_relative, expected="fails"
    ),
)
XPOS = (
    law("bound falls as zeta^(m-n)", XPOS_SECTION, _bound_falls),
    law("scores = RoPE's", XPOS_SECTION, _equals_rope, expected="fails"),
)
NOPE = (law("keys may change places", "2", _keys_permute),)
ROPE = (law("keys may change places", "16", _keys_permute, expected="fails"),)
COPE = (
    law("a key whose gate is 0 is not counted", "CoPE section 4", _shut_key_is_not_counted),
    law("any key may be put in", "CoPE section 4", _any_key_is_not_counted, expected="fails"),
)
