"""The info command."""

from __future__ import annotations

from ropecli.cli.options import Json, Quiet


def info(json: Json = False, quiet: Quiet = False) -> None:
    """\b
    Examples:
      ropecli info

    Show versions, threads, threading layer and cache folder.
    """
    from ropecli.analyses.info import info as look
    from ropecli.render import document
    from ropecli.render import info as pages

    result = look()
    if json:
        document.show("info", {}, pages.as_json(result))
    else:
        pages.show(result)
