"""The command line: parse, call, render."""

from ropecli.cli.app import main

__all__ = ["main"]
