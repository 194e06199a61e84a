"""A program of any language as a function: arrays go in and come out as .npy files."""

from __future__ import annotations

import inspect
import shlex
import string
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from ropecli.checks.implementation.call import ROLES
from ropecli.checks.implementation.calling.vocabulary import ROLE
from ropecli.errors import ArgumentError

OUTPUTS = ("out", "out_k")
MOST_WORDS = 300  #: Characters of what a program says when it fails.


class Executable:
    """A command whose placeholders are the paths of .npy files, or numbers."""

    def __init__(self, command: str) -> None:
        """Parse the command."""
        try:
            self.words = shlex.split(command)
            parts = [list(string.Formatter().parse(word)) for word in self.words]
        except ValueError as error:
            raise ArgumentError(
                f"command must be words with placeholders in braces, got {command!r}: {error}"
            ) from None
        named = [name for word in parts for _, name, _, _ in word if name is not None]
        unknown = [name for name in named if name not in ROLES and name not in OUTPUTS]
        if unknown or "out" not in named or not set(named) & {"x", "q"}:
            msg = f"command must name {{x}} and {{out}}, and may name {', '.join(ROLES)}"
            msg += f", got {command!r}"
            raise ArgumentError(msg)
        self.inputs = tuple(dict.fromkeys(name for name in named if name not in OUTPUTS))
        self.outputs = tuple(name for name in OUTPUTS if name in named)
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        self.__signature__ = inspect.Signature(
            [inspect.Parameter(name, kind, annotation=ROLE) for name in self.inputs]
        )

    def __call__(self, *values: Any) -> Any:
        """Run the command with these inputs, in the order of their first mention."""
        with tempfile.TemporaryDirectory(prefix="ropecli-") as folder:
            said: dict[str, str] = {}
            for name, value in zip(self.inputs, values, strict=True):
                if isinstance(value, np.ndarray):
                    said[name] = str(Path(folder) / f"{name}.npy")
                    np.save(said[name], value, allow_pickle=False)
                else:
                    said[name] = str(value)
            said |= {name: str(Path(folder) / f"{name}.npy") for name in self.outputs}
            words = [word.format(**said) for word in self.words]
            done = subprocess.run(
                words, capture_output=True, text=True, errors="replace", check=False
            )
            if done.returncode:
                text = (done.stderr or done.stdout)[-MOST_WORDS:]
                raise RuntimeError(f"{words[0]} ended with exit code {done.returncode}: {text}")
            results = [np.load(said[name], allow_pickle=False) for name in self.outputs]
        return results[0] if len(results) == 1 else tuple(results)
