"""Why a target gave nothing to judge."""

from __future__ import annotations


class TargetError(Exception):
    """The target raised, or returned no array of the right shape; in one line."""


class WrongResult(TargetError):
    """The target returned what is no answer; that is no refusal."""


class Unsuited(Exception):
    """A target of this form can't be asked this."""


def told(error: BaseException) -> str:
    """An exception's type and message in one line that is not too long."""
    try:
        text = " ".join(str(error).split())
    except Exception:  # its own words fail too
        text = ""
    name = type(error).__name__
    return visible(f"{name}: {text[:200]}" if text else name)


def visible(text: str) -> str:
    """With letters that are no letters, such as those that colour a terminal, spelt out."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
