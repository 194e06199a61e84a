"""Page of `verify --encoding`."""

from __future__ import annotations

from typing import Any

from ropecli.checks.verify_encoding import EncodingVerification, EncodingVerifications
from ropecli.render import View, verify
from ropecli.render.console import Screen, paragraphs
from ropecli.render.table import align
from ropecli.render.verify import source_of, verdict

THEORY = {"holds": "holds", "fails": "fails, as it must"}


def as_json(result: EncodingVerifications, **_: object) -> dict[str, Any]:
    """Return the `result` of the document: of one encoding, or a list of them."""
    parts: list[dict[str, Any]] = [verify.VIEW.as_json(part) for part in result.parts]
    if len(parts) == 1:
        return parts[0]
    named = [
        {"name": part.encoding, **each} for part, each in zip(result.parts, parts, strict=True)
    ]
    return {"passed": result.passed, "encodings": named}


def page(
    result: EncodingVerification | EncodingVerifications,
    screen: Screen,
    *,
    errors: bool = False,
    explain: bool = False,
) -> list[str]:
    """Return the count, then a row for each law, measured and in theory, and the failures."""
    parts = (result,) if isinstance(result, EncodingVerification) else result.parts
    blocks = [[_count(part) for part in parts]]
    for part in parts:
        facts = f"model dim {part.model_dim}, heads {part.heads}, float64"
        reach = f"positions up to {part.max_position}, seed {part.seed}"
        heading = [f"Checking {part.encoding} against its published formula", f"{facts}, {reach}"]
        tables = [_against_theory(part, errors=errors)]
        blocks += verify.parts(part, screen, heading, tables, errors=errors, explain=explain)
    return paragraphs(*blocks)


def _against_theory(result: EncodingVerification, *, errors: bool) -> list[str]:
    """Return a row for each law of an encoding."""
    numbers = ["worst error", "tolerance", "samples"] if errors else []
    rows = [["", "law", "from", "theory says", *numbers]]
    for check in result.checks:
        cells = [f"{check.max_error:.3g}", f"{check.tolerance:.3g}", f"{check.samples:,}"]
        words = [verdict([check]), check.name, source_of(check), THEORY[check.expected]]
        rows.append([*words, *(cells if errors else [])])
    return align(rows, left=4)


def _count(result: EncodingVerification) -> str:
    name = result.encoding
    wrong = sum(not check.passed for check in result.checks)
    samples = sum(check.samples for check in result.checks)
    took = f"({samples:,} samples, {result.seconds:.1f} s)"
    if wrong:
        are = "law is" if wrong == 1 else "laws are"
        return f"FAIL  {name}: {wrong} {are} not as theory says, of {len(result.checks)} {took}"
    holding = sum(check.expected == "holds" for check in result.checks)
    failing = len(result.checks) - holding
    also = {0: "", 1: " and 1 fails as it must"}.get(failing, f" and {failing} fail as they must")
    return f"PASS  {name}: {holding} law{'s hold' if holding > 1 else ' holds'}{also} {took}"


VIEW = View(page=page, document=as_json)
