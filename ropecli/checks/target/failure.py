"""Why a target gave nothing to judge."""

from __future__ import annotations


class TargetError(Exception):
    """The target raised, or returned no array of the right shape; in one line."""


class Unsuited(Exception):
    """A target of this form can't be asked this."""


def told(error: BaseException) -> str:
    """An exception's type and message in one line that is not too long."""
    try:
        text = " ".join(str(error).split())
    except Exception:  # its own words fail too
        text = ""
    return f"{type(error).__name__}: {text[:200]}" if text else type(error).__name__
