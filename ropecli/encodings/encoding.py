"""The class of all positional encodings: weights, and scores of queries against keys."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np

from ropecli.arrays import Array, as_floats, as_positions
from ropecli.errors import ArgumentError
from ropecli.kernels import scores as kernels


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Sizes of an attention layer."""

    model_dim: int  #: Coordinates of a token.
    heads: int  #: Number of heads.
    head_dim: int  #: Coordinates of a head's query and key.


@dataclass(frozen=True, kw_only=True)
class Theory:
    """Properties of a score in theory, tokens fixed; None where the weights decide.

    What is not named does not hold.
    """

    translation_invariant: bool | None = False  #: S(m+s, n+s) = S(m, n).
    symmetric: bool | None = False  #: S(m, n) of q and k = S(n, m) of the same q and k.
    bounded: bool | None = False  #: |S| <= |q||k| / sqrt(head_dim), whatever the positions.
    decaying: bool | None = False  #: The part of positions falls with every step of distance.
    linear_shift: bool | None = False  #: A shift acts on the code of a position as a matrix.


@dataclass(frozen=True, kw_only=True, eq=False)
class Terms:
    """The four terms of RoFormer Eq. 6, query first, (heads, queries, keys): a score's parts."""

    content_content: Array  #: x_m^T W_q^T W_k x_n.
    content_position: Array  #: x_m^T W_q^T W_k p_n, or its counterpart.
    position_content: Array  #: p_m^T W_q^T W_k x_n, or its counterpart.
    position_position: Array  #: p_m^T W_q^T W_k p_n, or a bias.


@dataclass(frozen=True, kw_only=True, eq=False)
class Encoding(ABC):
    """A positional encoding with its weights, all float64."""

    name: ClassVar[str]  #: In lower case, as in file names and options.
    equation: ClassVar[str]  #: Its equation in RoFormer, or in its own paper.
    default_theory: ClassVar[Theory]  #: Theory for default options.
    depends_on_other_keys: ClassVar[bool] = False  #: A score depends on other keys too.
    of_causal_models: ClassVar[bool] = False  #: Models that it is known from are decoders only.

    sizes: Sizes  #: Sizes of tokens and heads.
    weights: Mapping[str, Array] = field(repr=False)  #: Names and shapes are those of `shapes`.
    #: Arrays that tokens share, by name; of a copy for many tokens only.
    _kept: ClassVar[dict[str, tuple[bytes, Array]] | None] = None

    @classmethod
    def shapes(cls, sizes: Sizes, **options: Any) -> dict[str, tuple[int, ...]]:
        """Names and shapes of the weights: W_q, W_k, W_v, and the encoding's own."""
        return projections(sizes)

    @classmethod
    def sample_weight(cls, name: str, shape: tuple[int, ...], random: np.random.Generator) -> Array:
        """Sample a weight with variance 1 / (length of its second-last axis)."""
        scale = np.sqrt(shape[-2] if len(shape) > 1 else 1)
        weight: Array = random.standard_normal(shape) / scale
        return weight

    @property
    def theory(self) -> Theory:
        """Theory of the encoding with its options."""
        return self.default_theory

    @property
    def causal(self) -> bool:
        """True if no query sees a later key in the models that have it, with its options."""
        return self.of_causal_models

    @property
    def saturation_position(self) -> float:
        """Position beyond which the encoding treats all distances alike."""
        return 0.0

    def for_many_tokens(self) -> Self:
        """Return a copy that computes once what tokens at the same positions share.

        Its weights must stay as they are.
        """
        copy = replace(self)
        object.__setattr__(copy, "_kept", {})
        return copy

    def _compute(self, name: str, positions: Array, compute: Callable[[], Array]) -> Array:
        """Return what weights and positions determine; a copy for many tokens keeps the last."""
        if self._kept is None:
            return compute()
        key = positions.tobytes()
        if name not in self._kept or self._kept[name][0] != key:
            self._kept[name] = key, compute()
        return self._kept[name][1]

    @abstractmethod
    def _scores(self, x_query: Array, x_key: Array, m: Array, n: Array) -> Array:
        """Scores of checked arguments."""

    def scores(self, x_query: Any, x_key: Any, query_positions: Any, key_positions: Any) -> Array:
        """a_mn of RoFormer Eq. 2 before its softmax, scale included.

        Args:
            x_query: Tokens of the queries, (queries, model_dim).
            x_key: Tokens of the keys, (keys, model_dim).
            query_positions: (queries,), integers or floats.
            key_positions: (keys,).

        Returns:
            (heads, queries, keys), float64.

        Raises:
            ArgumentError: A wrong shape, or a position out of range.
            ArgumentTypeError: An unsupported dtype.
        """
        x, y = self._tokens("x_query", x_query), self._tokens("x_key", x_key)
        m = _positions("query_positions", query_positions, len(x))
        n = _positions("key_positions", key_positions, len(y))
        return self._scores(x, y, m, n)

    def attend(self, x_query: Any, x_key: Any, query_positions: Any, key_positions: Any) -> Array:
        """o_m = sum_n a_mn v_n (RoFormer Eq. 2), v_n = W_v x_n unless positions change values.

        Args:
            x_query: As `scores` takes it.
            x_key: As `scores` takes it; the values are made of it too.
            query_positions: As `scores` takes them.
            key_positions: As `scores` takes them.

        Returns:
            (heads, queries, head_dim), float64.

        Raises:
            ArgumentError: A wrong shape, or a position out of range.
            ArgumentTypeError: An unsupported dtype.
        """
        scores = self.scores(x_query, x_key, query_positions, key_positions)
        return self.output(softmax(scores), x_key, query_positions, key_positions)

    def output(
        self, attention: Array, x_key: Any, query_positions: Any, key_positions: Any
    ) -> Array:
        """o_m of given attention, such as `softmax` of scores.

        Args:
            attention: (heads, queries, keys).
            x_key: As `scores` takes it.
            query_positions: As `scores` takes them.
            key_positions: As `scores` takes them.

        Returns:
            (heads, queries, head_dim), float64.

        Raises:
            ArgumentError: A wrong shape, or a position out of range.
            ArgumentTypeError: An unsupported dtype.
        """
        out: Array = attention @ (self._tokens("x_key", x_key) @ self.weights["value"])
        return out

    def terms(self, x_query: Any, x_key: Any, query_positions: Any, key_positions: Any) -> Terms:
        """Scores as the four terms of RoFormer Eq. 6: content and position of query and key.

        What no token changes is the term of positions only, a bias included; what one token
        changes by itself, with the other at 0, is a term of its content; the rest is the term of
        both contents. For a score that is linear in each of its tokens these are the four terms
        of Eq. 6 to 10.

        Args:
            x_query: As `scores` takes it.
            x_key: As `scores` takes it.
            query_positions: As `scores` takes them.
            key_positions: As `scores` takes them.

        Raises:
            ArgumentError: A wrong shape, or a position out of range.
            ArgumentTypeError: An unsupported dtype.
        """
        x, y = self._tokens("x_query", x_query), self._tokens("x_key", x_key)
        places = query_positions, key_positions
        none = self.scores(np.zeros_like(x), np.zeros_like(y), *places)
        query = self.scores(x, np.zeros_like(y), *places) - none
        key = self.scores(np.zeros_like(x), y, *places) - none
        both = self.scores(x, y, *places) - none - query - key
        return Terms(
            content_content=both,
            content_position=query,
            position_content=key,
            position_position=none,
        )

    def _tokens(self, name: str, value: Any) -> Array:
        array = as_floats(name, value)
        if array.ndim != 2 or array.shape[1] != self.sizes.model_dim:
            raise ArgumentError(
                f"{name} must have shape (tokens, {self.sizes.model_dim}), got {array.shape}"
            )
        tokens: Array = np.asarray(array, dtype=np.float64)
        return tokens

    def _queries(self, x: Array) -> Array:
        """W_q x: (heads, tokens, head_dim)."""
        return _project(x, self.weights["query"])

    def _keys(self, x: Array) -> Array:
        """W_k x: (heads, tokens, head_dim)."""
        return _project(x, self.weights["key"])

    def _dots(self, q: Array, x: Array, weight: str = "key") -> Array:
        """q_m . W x_n: (heads, queries, keys)."""
        w = self.weights[weight]
        if q.shape[1] > 1:
            return dots(q, _project(x, w))
        # For one query, (W^T q) . x_n is the same number for 1 / head_dim of the work.
        back = (q @ w.transpose(0, 2, 1))[:, 0]
        return (back @ x.T)[:, None]

    @property
    def _scale(self) -> float:
        return float(1 / np.sqrt(self.sizes.head_dim))


@dataclass(frozen=True, kw_only=True, eq=False)
class Additive(Encoding):
    """An encoding that adds a code p to each token, before all projections (RoFormer Eq. 3)."""

    @abstractmethod
    def _codes(self, name: str, positions: Array) -> Array:
        """p of checked positions, which errors call by a name: (positions, model_dim)."""

    def code(self, positions: Any) -> Array:
        """p of each position: (positions, model_dim)."""
        return self._codes("positions", as_positions(positions).ravel())

    def output(
        self, attention: Array, x_key: Any, query_positions: Any, key_positions: Any
    ) -> Array:
        """o_m = sum_n a_mn W_v (x_n + p_n)."""
        code = self._codes("key_positions", as_positions(key_positions).ravel())
        x = self._tokens("x_key", x_key) + code
        return super().output(attention, x, query_positions, key_positions)

    def _scores(self, x_query: Array, x_key: Array, m: Array, n: Array) -> Array:
        at_query = self._compute("query", m, lambda: self._codes("query_positions", m))
        at_key = self._compute("key", n, lambda: self._codes("key_positions", n))
        return self._dots(self._queries(x_query + at_query), x_key + at_key) * self._scale


def _project(x: Array, weight: Array) -> Array:
    """W x: (heads, tokens, head_dim). A broadcast token is projected once."""
    if len(x) > 1 and x.strides[0] == 0:
        return np.repeat(x[:1] @ weight, len(x), axis=1)
    return np.ascontiguousarray(x @ weight)


def projections(sizes: Sizes) -> dict[str, tuple[int, ...]]:
    """The shapes of W_q, W_k and W_v, which every encoding has."""
    shape = (sizes.heads, sizes.model_dim, sizes.head_dim)
    return {"query": shape, "key": shape, "value": shape}


def softmax(scores: Array) -> Array:
    """a_mn of RoFormer Eq. 2, over the last axis; a masked score is -inf."""
    share = np.exp(scores - scores.max(axis=-1, keepdims=True, initial=-np.inf))
    share /= share.sum(axis=-1, keepdims=True)
    return np.asarray(share, dtype=np.float64)


def dots(q: Array, k: Array) -> Array:
    """q_m . k_n, (heads, queries, keys)."""
    out = np.zeros((q.shape[0], q.shape[1], k.shape[1]))
    kernels.add_dots(q, k, out)
    return out


def _positions(name: str, value: Any, count: int) -> Array:
    positions = as_positions(value)
    if positions.shape != (count,):
        raise ArgumentError(f"{name} must have shape ({count},), got {positions.shape}")
    return positions
