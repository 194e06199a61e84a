"""Assert in the tests of other projects that an implementation of RoPE is correct.

    from ropecli.testing import assert_rope

    def test_rope():
        assert_rope(my_kernels.apply, head_dim=128)

With pytest there is also a fixture, `rope_check`, which is the same function.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ropecli.checks.implementation import Verdict
    from ropecli.rotary.rotary import Rotary


def assert_rope(target: Any, expect: Rotary | None = None, **options: Any) -> Verdict:
    """Assert that an implementation is correct, and return the verdict.

    Args:
        target: The implementation, function(x, positions) unless `form` says otherwise.
        expect: The encoding expected; without it, any RoPE in any convention is correct.
        **options: Options of `ropecli.check`: head_dim, framework, form, context_length, ...

    Raises:
        AssertionError: A law fails; the message is what `ropecli check` prints.
    """
    __tracebackhide__ = True
    from ropecli.checks.implementation.check import check
    from ropecli.render.check import page
    from ropecli.render.console import Screen

    verdict = check(target, expect=expect, **options)
    if not verdict.passed:
        name = getattr(target, "__qualname__", None) or type(target).__name__
        raise AssertionError("\n".join(page(verdict, Screen(), target=name)))
    return verdict
