"""A calling convention: an expression and the axes of what it names. NumPy is not needed for it."""

from __future__ import annotations

import ast
import functools
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from ropecli.errors import ArgumentError
from ropecli.names import one_of
from ropecli.units import UNIT

#: What a call may name, besides the implementation itself; `calling/values.py` makes them.
ROLES = {
    "x": "vectors",
    "q": "queries",
    "k": "keys",
    "qkv": "queries, keys and values stacked on the axis 3 of `axes_of_x`",
    "positions": "integers",
    "offset": "the first position, where they are consecutive",
    "offsets": "the first position of each sequence, (batch,)",
    "length": "number of tokens",
    "cos": "cosines, times the attention factor",
    "sin": "sines, times the attention factor",
    "freqs": "angles of each token, in the form of `freqs`",
    "cos_cache": "cosines of every position, (context, columns)",
    "sin_cache": "sines of every position, (context, columns)",
    "freqs_cache": "angles of every position, in the form of `freqs`, (context, ...)",
    "cos_sin_cache": "cosines and sines of every position side by side, (context, rotary dim)",
    "inv_freq": "inverse frequencies, (pairs,)",
    "head_dim": "coordinates of a vector",
    "rotary_dim": "coordinates that are rotated",
    "heads": "heads of the queries",
    "key_heads": "heads of the keys",
    "axes_dims": "even shares of head_dim for the coordinates of a position, a tuple",
    "grid": "sizes of a grid that has all positions, one for each of their coordinates, a tuple",
    "places": "number of each token in that grid, whose last coordinate counts first",
    "base": "base of the frequencies",
    "context": "positions that must be taken",
    "dtype": "dtype of x, as the framework names it; float32 where an instance is made",
    "end": "the largest position, plus 1",
    "cu_seqlens": "where each sequence begins in b*s, and the last one ends, int32, (batch + 1,)",
    "out": "array of x's shape and dtype for the result, full of NaN",
    "config": "where an instance is made: object with these sizes, by the names that models use",
}
#: Forms of `freqs`, and the shape of one token's.
FREQS = {
    "angles": "(columns,), radians",
    "complex": "(pairs,), cos + i sin",
    "cos sin": "(columns, 2)",
    "matrix": "(pairs, 2, 2), the rotation of each pair",
    "cos then sin": "(2 columns,), the cosines first",
    "sin then cos": "(2 columns,), the sines first",
    "stacked": "(columns,), in an array (2, ...) of cosines and sines",
}
PACKED = "3"  #: The axis on which q, k and v are stacked.
#: Tables with a row for each token, and those with a row for each position.
TABLES = ("cos", "sin", "freqs")
CACHES = ("cos_cache", "sin_cache", "freqs_cache", "cos_sin_cache")
COLUMNS = {
    "half": "each frequency in both halves",
    "interleaved": "twice side by side",
    "single": "once",
}
POSITIONS_DTYPES = ("int64", "int32", "float32")
#: Calls that are met most, and their arguments.
FORMS = {
    "apply": "x, positions",
    "tables": "q, k, cos, sin",
    "module": "x, positions",
    "decoder": "x",
}
#: Calls of a decoder's instance.
PREFILL, STEP = ".prefill(x)", ".step(x)"
FRAMEWORKS = ("numpy", "torch", "jax", "mlx")


@dataclass(frozen=True, kw_only=True)
class Convention:
    """A calling convention: an expression and the axes of what it names.

    `call` is a Python expression over the implementation's name and the names of `ROLES`, such as
    `apply(q, k, cos, sin)` or `Rotary(dim=head_dim)(x, positions)`. A call of a class makes an
    instance once, which later calls use again.

    Axes are written as letters: b(atch), h(eads), s(equence), d (head dim), 1, and products such as
    b*s; those of positions with several coordinates also c, which is last if it is left out. Other
    axes left out have length 1.
    """

    call: str
    step: str = ""  #: Of a decoder: the call with one more token.
    axes_of_x: str = "b h s d"
    axes_of_positions: str = "s"  #: With a b in it they are always given for each sequence.
    axes_of_tables: str = "b s d"  #: Of cos, sin and freqs; of caches without b.
    columns: str = "half"  #: Columns of tables: one of `COLUMNS`.
    freqs: str = "angles"  #: One of `FREQS`.
    tables_dtype: str = ""  #: Dtype of tables; that of x if empty, of angles float32 at least.
    positions_dtype: str = "int64"
    framework: str = "numpy"

    def __post_init__(self) -> None:
        """Validate."""
        for name, value, allowed in (
            ("freqs", self.freqs, FREQS),
            ("tables", self.columns, COLUMNS),
            ("framework", self.framework, FRAMEWORKS),
            ("positions dtype", self.positions_dtype, POSITIONS_DTYPES),
            ("tables dtype", self.tables_dtype or next(iter(UNIT)), UNIT),
        ):
            one_of(name, value, allowed)
        for text in filter(None, (self.call, self.step)):
            _names_in(text)
        letters("axes of x", self.axes_of_x, needed="sd", known="bhsd")
        letters("axes of positions", self.axes_of_positions, needed="s", known="bsc")
        letters("axes of tables", self.axes_of_tables, needed="sd", known="bhsd")

    @functools.cached_property
    def names(self) -> frozenset[str]:
        """The names that the call mentions."""
        return frozenset[str]().union(*map(_names_in, filter(None, (self.call, self.step))))

    def options(self) -> str:
        """The command-line options that say this convention, as they can be pasted."""
        unused = {"step"}  # a form says it
        if not self.names & {*TABLES, *CACHES}:
            unused.add("columns")
        if not self.names & {*TABLES, *CACHES, "inv_freq"}:
            unused.add("tables_dtype")
        if not self.names & {*TABLES} and "1" not in self.axes_of_tables:
            unused.add("axes_of_tables")  # of a cache: (rows, columns)
        if not self.names & {"freqs", "freqs_cache"}:
            unused.add("freqs")
        if "positions" not in self.names:
            unused |= {"axes_of_positions", "positions_dtype"}
        words = []
        for field in fields(self):
            value = getattr(self, field.name)
            shown = field.name in {"call", "axes_of_x"} or value != field.default
            if shown and field.name not in unused:
                name = "tables" if field.name == "columns" else field.name.replace("_", "-")
                words.append(f"--{name} {_quote(value)}")
        return " ".join([*words, *(["--form decoder"] if self.step else [])])

    def describe_axes(self) -> str:
        """The axes of the vectors, and of the tables if there are any."""
        tables = f", tables {self.axes_of_tables}" if self.names & {*TABLES} else ""
        return f"axes {self.axes_of_x}{tables}"

    def with_keywords(self, target: str, more: Mapping[str, Any]) -> Convention:
        """The convention with other keyword arguments where the implementation itself is called."""
        if not more:
            return self
        call, step = (
            _with_keywords(expression, target, more) for expression in (self.call, self.step)
        )
        return replace(self, call=call, step=step)


def _with_keywords(text: str, target: str, more: Mapping[str, Any]) -> str:
    """Return a call with other keyword arguments where the implementation itself is called."""
    if not text:
        return text
    tree = parse_call(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and called_name(node) == target:
            kept = [word for word in node.keywords if word.arg not in more]
            added = [ast.keyword(arg=k, value=ast.Constant(v)) for k, v in more.items()]
            node.keywords = [*kept, *added]
    return ast.unparse(tree)


def _quote(text: str) -> str:
    quoted = shlex.quote(text)
    return f'"{text}"' if quoted != text and not set(text) & set('"$`\\!') else quoted


@functools.lru_cache(maxsize=1024)
def _names_in(text: str) -> frozenset[str]:
    """Return the names of an expression but those called, which may be named as an argument is."""
    nodes = [*ast.walk(tree := parse_call(text))]
    called = [node.func for node in nodes if isinstance(node, ast.Call)]
    outermost: ast.AST = tree.body
    while isinstance(outermost, ast.Call | ast.Attribute):
        outermost = outermost.func if isinstance(outermost, ast.Call) else outermost.value
    return frozenset(
        node.id
        for node in nodes
        if isinstance(node, ast.Name) and node not in called and node is not outermost
    )


def parse_call(text: str) -> ast.Expression:
    """Parse an expression."""
    try:
        return ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError) as error:
        msg = f"call must be a Python expression such as apply(x, positions), got {text!r}"
        msg += f": {error}"
        raise ArgumentError(msg) from None


def called_name(node: ast.Call) -> str:
    """The plain name that is called; empty if it is something else."""
    return node.func.id if isinstance(node.func, ast.Name) else ""


@functools.lru_cache(maxsize=256)
def letters(
    name: str, text: str, *, needed: str = "", known: str = "bhsdc"
) -> tuple[tuple[str, ...], ...]:
    """Return the letters of each axis: "b*s h d" becomes (("b", "s"), ("h",), ("d",))."""
    words = text.replace("tokens", "b*s").split()
    split = [word.split("*") for word in words if word != PACKED]
    axes = tuple(tuple(letter for letter in word if letter != "1") for word in split)
    flat = [letter for axis in axes for letter in axis]
    if not words or set(flat) - set(known) or len(set(flat)) < len(flat) or set(needed) - set(flat):
        example = "'b h s d' or 'b*s h*d'" if "d" in known else "'b s', 'b*s' or 'c b s'"
        msg = f"{name} must be letters of {' '.join(known)}, each once, such as {example}"
        msg += f", got {text!r}"
        raise ArgumentError(msg)
    return axes
