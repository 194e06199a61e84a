"""`decay --encoding`: the expected scores of encodings, beside RoPE's bound."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from ropecli.cli.encoding import Encoding


def show_expected(
    names: list[str],
    encodings: list[Encoding],
    max_dist: float,
    rope_options: dict[str, Any],
    *,
    seed: int,
    output: Path | None,
    force: bool,
    json: bool,
    quiet: bool,
) -> None:
    """Compute, write and print them.

    Args:
        names: Of encodings, or "all".
        encodings: RoPE's; there may be one.
        max_dist: Last distance, whole.
        rope_options: What RoPE was made of, for the document.
        seed: What weights and tokens are drawn with.
        output: A figure or numbers, by the suffix.
        force: Replace the output if it exists.
        json: Print the document instead.
        quiet: The numbers alone.

    Raises:
        ArgumentError: No such encoding, or a value that is not allowed.
        FileError: The output can't be written.
    """
    from ropecli.analyses.decay import decay as analyse
    from ropecli.analyses.expected import expected_score
    from ropecli.cli.progress import progress_bar
    from ropecli.encodings import ENCODINGS, with_table
    from ropecli.errors import ArgumentError
    from ropecli.render import document
    from ropecli.render import expected as pages

    last = int(max_dist) if abs(max_dist) < 2**53 else 0
    if last != max_dist or len(encodings) != 1:
        msg = "--encoding takes whole distances, and one --dim, --base or --model"
        raise ArgumentError(msg)
    rope = encodings[0].rope
    chosen = ENCODINGS if names == ["all"] else tuple(dict.fromkeys(names))
    bound = analyse(rope, max_distance=last, name=encodings[0].name)
    curves = []
    for name in chosen:
        own = {"rotary": rope} if name == "rope" else {}
        made = with_table(
            name, last + 1, model_dim=4 * rope.head_dim, head_dim=rope.head_dim, seed=seed, **own
        )
        with progress_bar(name, wanted=not quiet, of_bytes=False) as progress:
            curves.append(expected_score(made, max_distance=last, seed=seed, progress=progress))
    parameters = {
        "encoding": list(chosen),
        "max_dist": last,
        **rope_options,
        "dim": rope.head_dim,
        "base": rope.base,
        "seed": seed,
    }
    if output is not None:
        pages.write(bound, curves, output, parameters, force=force)
    if json:
        document.show("decay", parameters, pages.as_json(bound, curves))
    else:
        pages.show(bound, curves, seed=seed, saved_as=output, brief=quiet)
