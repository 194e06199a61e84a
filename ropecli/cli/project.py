"""Options of `lint` and `check` that a project sets in its pyproject.toml.

Such a file comes with whatever is unpacked or cloned, so it sets only options that neither write
nor run anything, those of `FROM_PROJECT` of the command's module, and only where it is the user's.
"""

from __future__ import annotations

import importlib
import os
import reprlib
from pathlib import Path
from typing import Any

from ropecli.errors import FileError
from ropecli.names import meant
from ropecli.ownership import why_distrusted

COMMANDS = ("lint", "check")
LARGEST = 2**20  #: Bytes of a pyproject.toml.


def defaults(name: str, command: Any) -> tuple[dict[str, Any], list[str]]:
    """Return the values of [tool.ropecli.COMMAND] by parameter, and notes on files not obeyed.

    They are those of the nearest pyproject.toml of the user with such a table, from the working
    folder up, and count where no option is given.
    """
    if name not in COMMANDS:
        return {}, []
    path, table, notes = _nearest()
    for unknown in table.keys() - {*COMMANDS}:
        raise FileError(
            f"{path}: [tool.ropecli] has tables {' and '.join(COMMANDS)}, got {unknown}"
        )
    configured = table.get(name, {})
    if not isinstance(configured, dict):
        raise FileError(f"{path}: {name} must be a table, got {reprlib.repr(configured)}")
    options = {
        option.opts[-1].removeprefix("--"): option
        for option in command.params
        if option.param_type_name == "option"
    }
    allowed = importlib.import_module(f"ropecli.cli.{name}").FROM_PROJECT
    for key, value in configured.items():
        if key not in options:
            raise FileError(f"{path}: {name} has no option {key!r}{meant(key, allowed)}")
        if key not in allowed:
            msg = f"{path}: {name}.{key} can be set on the command line only; a file sets "
            msg += ", ".join(allowed)
            raise FileError(msg)
        if not _is_value(value, options[key]):
            single = "true or false" if options[key].is_flag else "one value"
            expected = "a list" if options[key].multiple else single
            raise FileError(f"{path}: {name}.{key} must be {expected}, got {reprlib.repr(value)}")
    return {options[key].name: value for key, value in configured.items()}, notes


def _is_value(value: Any, option: Any) -> bool:
    """Tell whether a value is one that the option could have got on the command line."""
    if isinstance(value, list) != option.multiple:
        return False
    if option.is_flag:
        return isinstance(value, bool)
    values = value if option.multiple else [value]
    return all(type(item) in {str, int, float} for item in values)


def _nearest() -> tuple[Path, dict[str, Any], list[str]]:
    """Return the nearest file with [tool.ropecli] and that table; of none, an empty one."""
    notes: list[str] = []
    try:
        here = Path.cwd()
    except FileNotFoundError:  # the working folder was removed
        return Path(), {}, []
    for path in (folder / "pyproject.toml" for folder in (here, *here.parents)):
        table, reason = _table(path)
        if table is not None and not reason:
            return path, table, notes
        if table is not None:
            notes.append(f"{path} is not obeyed: {reason}")
    return Path(), {}, notes


def _table(path: Path) -> tuple[dict[str, Any] | None, str]:
    """Return [tool.ropecli] of a file, None where there is none, and why it is not the user's."""
    import tomllib

    reason = "nothing is known of it"
    try:
        if not path.is_file():  # a pipe would be waited for
            return None, ""
        # A link counts as its maker's, who chooses the file.
        reason = why_distrusted(path.lstat())
        with path.open("rb") as file:
            reason = reason or why_distrusted(os.fstat(file.fileno()))
            text = file.read(LARGEST + 1)
        if len(text) > LARGEST:
            raise ValueError(f"it is larger than {LARGEST:,} bytes")
        tool = tomllib.loads(text.decode()).get("tool", {})
    except (OSError, ValueError, RecursionError) as error:
        if reason:
            return None, ""
        said = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise FileError(f"cannot read {path}: {getattr(error, 'strerror', None) or said}") from None
    table = tool.get("ropecli") if isinstance(tool, dict) else None
    if table is not None and not isinstance(table, dict) and not reason:
        raise FileError(f"{path}: [tool.ropecli] must be a table, got {reprlib.repr(table)}")
    return table, reason
