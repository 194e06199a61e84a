"""Page of `verify --encoding`."""

from __future__ import annotations

from typing import Any

from ropecli.checks.verify_encoding import EncodingVerification
from ropecli.render import View, fields, verify
from ropecli.render.console import Screen, paragraphs
from ropecli.render.table import align
from ropecli.render.verify import source_of, verdict
from ropecli.results import ResultGroup

THEORY = {"holds": "holds", "fails": "fails, as it must"}


def as_json(group: ResultGroup, **_: object) -> dict[str, Any]:
    """Return the `result` of the document: of one encoding, or a list of them."""
    results = group.results
    if len(results) == 1:
        return fields(results[0], *verify.DOCUMENT)
    named = [fields(each, "encoding as name", *verify.DOCUMENT) for each in results]
    return {"passed": all(each.passed for each in results), "encodings": named}


def page(
    group: ResultGroup, screen: Screen, *, errors: bool = False, explain: bool = False
) -> list[str]:
    """Return the count, then a row for each law, measured and in theory, and the failures."""
    blocks = [[_count(each) for each in group.results]]
    for each in group.results:
        facts = f"model dim {each.model_dim}, heads {each.heads}, float64"
        reach = f"positions up to {each.max_position}, seed {each.seed}"
        heading = [f"Checking {each.encoding} against its published formula", f"{facts}, {reach}"]
        tables = [_against_theory(each, errors=errors)]
        blocks += verify.parts(each, screen, heading, tables, errors=errors, explain=explain)
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


VIEW = View(
    page=lambda result, screen: page(ResultGroup(results=(result,)), screen),
    group=View(page=page, document=as_json),
)
