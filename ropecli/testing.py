"""Checks for other projects' own tests: `assert_rope`, and `assert_encoding` for other encodings.

In pytest the fixture `rope_check` is `assert_rope` without an import.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from ropecli.errors import ArgumentError

if TYPE_CHECKING:
    from ropecli.checks.encoding.check import EncodingVerdict
    from ropecli.checks.implementation.check import Verdict
    from ropecli.checks.verdict import CodeVerdict
    from ropecli.models.model import Model
    from ropecli.rotary.rotary import Rotary


class NotThisRope(AssertionError):
    """A check fails; the message is what `ropecli check` prints."""

    def __init__(self, page: str, verdict: CodeVerdict, annotations: tuple[str, ...]) -> None:
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
    if expect is None and model is None:
        raise ArgumentError(
            "a test must say what it expects, got nothing",
            'give expect=Rotary(...), model=..., or expect="any"',
        )
    given = {"expect": expect, "model": model, **options}
    return cast("Verdict", _assert(target, junit, sarif, force=force, **given))


def assert_encoding(
    target: Any,
    encoding: str,
    *,
    call: str | None = None,
    init: Mapping[str, Any] | None = None,
    framework: str | None = None,
    junit: str | os.PathLike[str] | None = None,
    sarif: str | os.PathLike[str] | None = None,
    force: bool = False,
    options: Mapping[str, Any] | None = None,
    **required: Any,
) -> EncodingVerdict:
    """Assert that code of a positional encoding other than RoPE is correct; return the verdict.

    Args:
        target: The code or its name, as in `ropecli.check`.
        encoding: Its name, such as "alibi", "t5" or "sinusoidal".
        call: The call, if it is not found by its signature.
        init: Arguments of the code by name.
        framework: Framework of the arrays.
        junit: A file for the verdict as JUnit XML.
        sarif: A file for the verdict as SARIF 2.1.0.
        force: Replace files that exist.
        options: Further options of `ropecli.check`.
        **required: Options of the encoding that are required, and its sizes: heads=12.

    Raises:
        ArgumentError: No such encoding or option.
        AssertionError: A check fails; the message is what `ropecli check` prints.
        FileError: A file that can't be written.

    Example:
        >>> import numpy as np
        >>> from ropecli.testing import assert_encoding
        >>> def slopes(heads):
        ...     return 2.0 ** (-8 * np.arange(1, heads + 1) / heads)
        >>> assert_encoding(slopes, "alibi", heads=8).passed
        True
    """
    __tracebackhide__ = True
    given = {"call": call, "init": init, "framework": framework, **(options or {})}
    given |= {"encoding": encoding, "set": required or None}
    return cast("EncodingVerdict", _assert(target, junit, sarif, force=force, **given))


def _assert(
    target: Any,
    junit: str | os.PathLike[str] | None,
    sarif: str | os.PathLike[str] | None,
    *,
    force: bool,
    **options: Any,
) -> CodeVerdict:
    """Check code, write the reports, and raise where it fails."""
    __tracebackhide__ = True
    from pathlib import Path

    from ropecli.checks.implementation.check import check
    from ropecli.files.function import files_named
    from ropecli.render import view_of
    from ropecli.render.check_reports import report
    from ropecli.render.console import Screen
    from ropecli.render.problems import check_files, write_reports

    files = {name: Path(file) for name, file in (("junit", junit), ("sarif", sarif)) if file}
    sources = files_named(target) if isinstance(target, str) else []
    check_files(files.values(), sources=sources, force=force)
    verdict: CodeVerdict = check(target, force=force, **options)
    name = _name(target, options.get("command"))
    made = report(verdict, name, target)
    write_reports(made, junit=files.get("junit"), sarif=files.get("sarif"), force=force)
    if not verdict.passed:
        text = "\n".join(view_of(verdict).page(verdict, Screen(), target=name))
        raise NotThisRope(text, verdict, tuple(made.annotations()))
    return verdict


def _name(target: Any, command: str | None) -> str:
    if target is None:
        return command or ""
    if isinstance(target, str):
        return target
    return getattr(target, "__qualname__", None) or type(target).__name__
