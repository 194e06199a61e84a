"""Checks for other projects' own tests: `assert_rope`.

In pytest the fixture `rope_check` is `assert_rope` without an import.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from ropecli.errors import ArgumentError

if TYPE_CHECKING:
    from ropecli.checks.implementation.check import Verdict
    from ropecli.models.model import Model
    from ropecli.rotary.rotary import Rotary


class NotThisRope(AssertionError):
    """A check fails; the message is what `ropecli check` prints."""

    def __init__(self, page: str, verdict: Verdict, annotations: tuple[str, ...]) -> None:
        super().__init__(page)
        self.verdict = verdict
        self.annotations = annotations  #: Lines by which GitHub Actions marks the code.


def assert_rope(
    target: Any = None,
    expect: Rotary | str | None = None,
    *,
    model: Model | str | os.PathLike[str] | None = None,
    junit: str | os.PathLike[str] | None = None,
    sarif: str | os.PathLike[str] | None = None,
    force: bool = False,
    **options: Any,
) -> Verdict:
    """Assert that an implementation is correct, and return the verdict.

    Args:
        target: The implementation or its name, as in `ropecli.check`.
        expect: The encoding expected, or "any" where any RoPE in any convention is correct.
        model: The model whose encoding is expected, in place of `expect`.
        junit: A file for the verdict as JUnit XML.
        sarif: A file for the verdict as SARIF 2.1.0.
        force: Replace files that exist.
        **options: Options of `ropecli.check`: head_dim, framework, call, tolerance, select, ignore,
            save_failure, ...

    Raises:
        ArgumentError: Neither `expect` nor `model`, or both.
        AssertionError: A check fails; the message is what `ropecli check` prints.
        FileError: A file that can't be written.
    """
    __tracebackhide__ = True
    from pathlib import Path

    if expect is None and model is None:
        raise ArgumentError(
            "a test must say what it expects, got nothing",
            'give expect=Rotary(...), model=..., or expect="any"',
        )
    from ropecli.checks.implementation.check import check
    from ropecli.files.function import files_named
    from ropecli.render.check import page
    from ropecli.render.check_reports import report
    from ropecli.render.console import Screen
    from ropecli.render.problems import check_files, write_reports

    files = {name: Path(file) for name, file in (("junit", junit), ("sarif", sarif)) if file}
    sources = files_named(target) if isinstance(target, str) else []
    check_files(files.values(), sources=sources, force=force)
    verdict = check(target, expect=expect, model=model, force=force, **options)
    name = _name(target, options.get("command"))
    made = report(verdict, name, target)
    write_reports(made, junit=files.get("junit"), sarif=files.get("sarif"), force=force)
    if not verdict.passed:
        text = "\n".join(page(verdict, Screen(), target=name))
        raise NotThisRope(text, verdict, tuple(made.annotations()))
    return verdict


def _name(target: Any, command: str | None) -> str:
    if target is None:
        return command or ""
    if isinstance(target, str):
        return target
    return getattr(target, "__qualname__", None) or type(target).__name__
