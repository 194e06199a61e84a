"""`verify --encoding`: one positional encoding, judged by its own laws."""

from __future__ import annotations

from typing import Any

import typer

SIZES = {"model_dim": 64, "heads": 4}  #: Where they are not given.


def verify_one(
    name: str,
    sizes: dict[str, int | None],
    others: dict[str, Any],
    seed: int,
    *,
    errors: bool,
    explain: bool,
    json: bool,
    quiet: bool,
) -> None:
    """Judge an encoding and print the verdicts.

    Args:
        name: Of the encoding.
        sizes: Model dim and heads, None where they were not given.
        others: Options that only mean something of RoPE, None where they were not given.
        seed: What weights, tokens and positions are drawn with.
        errors: Show errors and tolerances.
        explain: Say where tolerances come from.
        json: Print the document instead.
        quiet: The table alone.

    Raises:
        ArgumentError: No such encoding, or a value or option that is not allowed.
        Exit: With 1, where a law is not as theory says.
    """
    from ropecli.checks.verify_encoding import verify_encoding
    from ropecli.render import document
    from ropecli.render import verify as pages
    from ropecli.render import verify_encoding as own_pages

    refuse_beside_encoding(**others)
    given = SIZES | {size: number for size, number in sizes.items() if number is not None}
    result = verify_encoding(name, seed=seed, **given)
    if json:
        document.show("verify", {"encoding": name, **given, "seed": seed}, pages.as_json(result))
    else:
        own_pages.show(result, name, given, errors=errors, explain=explain, brief=quiet)
    if not result.passed:
        raise typer.Exit(1)


def refuse_without_encoding(**options: Any) -> None:
    """Refuse options that only mean something of an encoding by name.

    Args:
        **options: Their values, None where they were not given.

    Raises:
        ArgumentError: One was given.
    """
    from ropecli.errors import ArgumentError

    for name, value in options.items():
        if value is not None:
            msg = f"{_flag(name)} needs --encoding, got {value!r} of no encoding"
            raise ArgumentError(msg)


def refuse_beside_encoding(**options: Any) -> None:
    """Refuse options that an encoding by name has no use for.

    Args:
        **options: Their values, None where they were not given.

    Raises:
        ArgumentError: One was given.
    """
    from ropecli.errors import ArgumentError

    given = [_flag(name) for name, value in options.items() if value not in (None, [])]
    if given:
        them = "it" if len(given) == 1 else "them"
        msg = f"--encoding has no use for {', '.join(given)}; leave {them} out"
        raise ArgumentError(msg)


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
