"""The info command."""

from __future__ import annotations

from ropecli.cli.command import command
from ropecli.cli.options import PageOptions


@command()
def info(*, output: PageOptions) -> None:
    """\b
    Examples:
      ropecli info

    Show versions, threads, threading layer and cache folder.
    """
    from ropecli.analyses.info import info as look

    output.show(look(), output.parameters())
