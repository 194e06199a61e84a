"""Laws of encodings with a table by position: learned, Shaw, Transformer-XL, TUPE, DeBERTa."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ropecli.checks.encoding_laws.subject import EXACT, compare, law
from ropecli.encodings.types.deberta import Deberta
from ropecli.encodings.types.learned import Learned
from ropecli.encodings.types.shaw import Shaw
from ropecli.errors import ArgumentError

if TYPE_CHECKING:
    from ropecli.checks.encoding_laws.subject import Array, EncodingSubject
    from ropecli.checks.law import Outcome

APPENDIX = "Transformer-XL appendix B"


def _refuses_beyond_table(subject: EncodingSubject) -> Outcome:
    assert isinstance(subject.encoding, Learned)
    beyond = subject.encoding.length + np.arange(float(len(subject.x)))
    refused = np.zeros(len(beyond))
    for i, position in enumerate(beyond):
        try:
            subject.scores(subject.x[:1], subject.y[:1], np.zeros(1), np.array([position]))
        except ArgumentError:
            refused[i] = 1
    return compare(refused, np.ones(len(beyond)), 0.0)


def _alike_from_clip(subject: EncodingSubject) -> Outcome:
    assert isinstance(subject.encoding, Shaw)
    return _alike_from(subject, subject.encoding.clip)


def _alike_before_clip(subject: EncodingSubject) -> Outcome:
    assert isinstance(subject.encoding, Shaw)
    return _alike_from(subject, subject.encoding.clip - 1)


def _alike_from(subject: EncodingSubject, first: int) -> Outcome:
    """Keys `first` and more away, on either side, all score as the one at `first`."""
    reach = np.arange(float(len(subject.y))) + first
    keys = np.tile(subject.y[:1], (len(reach), 1))
    middle = np.full(len(subject.x), reach[-1])
    got = np.stack(
        [subject.scores(y=keys, m=middle, n=middle[0] + side * reach) for side in (-1, 1)]
    )
    return compare(got, got[..., :1], 2 * subject.rounding(got))


def _shift_of_past_keys(subject: EncodingSubject) -> Outcome:
    direct, shifted = _relative_shift(subject)
    past = np.tri(direct.shape[1], dtype=bool)
    return compare(shifted[:, past], direct[:, past], 2 * subject.rounding(direct[:, past]))


def _shift_of_future_keys(subject: EncodingSubject) -> Outcome:
    direct, shifted = _relative_shift(subject)
    future = ~np.tri(direct.shape[1], dtype=bool)
    return compare(shifted[:, future], direct[:, future], 2 * subject.rounding(direct[:, future]))


def _relative_shift(subject: EncodingSubject) -> tuple[Array, Array]:
    """(q_m + v) . W_R R_(m-n) of each pair, and by the authors' shift of all distances' columns.

    Keys of zeros leave this part of the score alone. The shift puts a column of zeros before all
    others, reads the numbers as rows that are longer by one, and drops the first row.
    """
    m = np.arange(float(len(subject.x)))
    direct = subject.scores(y=subject.zeros, m=m, n=m)
    # Column j: distance count - 1 - j of every query.
    columns = subject.scores(y=subject.zeros, m=np.full(len(m), m[-1]), n=m)
    heads, queries, keys = columns.shape
    padded = np.concatenate([np.zeros((heads, queries, 1)), columns], axis=2)
    return direct, padded.reshape(heads, keys + 1, queries)[:, 1:].reshape(heads, queries, keys)


def _cls_has_thetas(subject: EncodingSubject) -> Outcome:
    """Position 0 as a query has theta1, as a key theta2, whatever the other position."""
    weights = subject.encoding.weights
    thetas = np.stack([weights["theta1"], weights["theta2"]])
    zero, others = np.zeros(1), np.arange(1.0, 9.0)
    zeros = np.zeros((len(others), subject.encoding.sizes.model_dim))
    before = subject.scores(zeros[:1], zeros, zero, others)[:, 0]
    after = subject.scores(zeros, zeros[:1], others, zero)[:, :, 0]
    got = np.stack([before, after])
    expected = np.broadcast_to(thetas[:, :, None], got.shape)
    return compare(got, expected, subject.rounding(got))


def _cls_is_a_position(subject: EncodingSubject) -> Outcome:
    """[CLS] as a position like any other: p_0 U_q . p_n U_k / sqrt(2d) + b."""
    weights, n = subject.encoding.weights, np.arange(1.0, 9.0)
    zeros = np.zeros((len(n), subject.encoding.sizes.model_dim))
    got = subject.scores(zeros[:1], zeros, np.zeros(1), n)[:, 0]
    table = weights["positions"]
    first, rest = table[0] @ weights["position_query"], table[1:9] @ weights["position_key"]
    place = np.einsum("hd,hnd->hn", first, rest) / np.sqrt(2 * subject.encoding.sizes.head_dim)
    middle = len(table) - 1
    expected = place + weights["bias"][middle + 1 : middle + 9].T
    return compare(got, expected, subject.rounding(got))


def _released_index(subject: EncodingSubject) -> Outcome:
    return _key_to_position(subject, 1)


def _printed_index(subject: EncodingSubject) -> Outcome:
    return _key_to_position(subject, -1)


def _key_to_position(subject: EncodingSubject, sign: int) -> Outcome:
    """Without a query only k_n . qr is left, in the row of sign (m - n)."""
    assert isinstance(subject.encoding, Deberta)
    w, k = subject.encoding.weights, subject.encoding.clip
    m, n = np.arange(float(len(subject.x))), np.arange(float(len(subject.y)))
    got = subject.scores(x=subject.zeros, m=m, n=n)
    rows = np.clip(sign * (m[:, None] - n) + k, 0, 2 * k - 1).astype(int)
    table: Array = w["positions"] @ w["position_query"]
    terms = np.einsum("hnd,hmnd->hmn", subject.y @ w["key"], table[:, rows])
    expected = terms / np.sqrt(3 * subject.encoding.sizes.head_dim)
    return compare(got, expected, subject.rounding(got))


LEARNED = (law("refuses positions beyond its table", "3", _refuses_beyond_table, because=EXACT),)
SHAW = (
    law("alike from k on", "5", _alike_from_clip),
    law("alike from k - 1 on", "5", _alike_before_clip, expected="fails"),
)
TRANSFORMER_XL = (
    law("relative shift, keys up to the query", APPENDIX, _shift_of_past_keys),
    law("relative shift, keys after the query", APPENDIX, _shift_of_future_keys, expected="fails"),
)
TUPE = (
    law("[CLS] has thetas", "9", _cls_has_thetas),
    law("[CLS] is a position", "9", _cls_is_a_position, expected="fails"),
)
DEBERTA = (
    law("p2c at m - n, as released", "10", _released_index),
    law("p2c at n - m, as printed", "10", _printed_index, expected="fails"),
)
