"""A function of the user's, by module:function."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ropecli.errors import FileError

if TYPE_CHECKING:
    from collections.abc import Callable


def load_function(target: str) -> Callable[..., Any]:
    """The function of a module that Python finds, or that lies in the current folder.

    The module's code is run.

    Raises:
        FileError: No such module or function, or a module that can't be imported.
    """
    module, colon, name = target.partition(":")
    if not (colon and module and name):
        msg = f"function must be given as module:function, got {target!r}"
        raise FileError(msg)
    here = str(Path.cwd())
    sys.path.append(here)
    try:
        found = getattr(importlib.import_module(module), name, None)
    except Exception as error:
        msg = f"{module} can't be imported: {type(error).__name__}: {error}"
        raise FileError(" ".join(msg.split())) from None
    finally:
        sys.path.remove(here)
    if not callable(found):
        msg = f"{module} must have a function {name!r}"
        raise FileError(msg)
    function: Callable[..., Any] = found
    return function
