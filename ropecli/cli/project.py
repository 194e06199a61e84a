"""Options of `lint` and `check` that a project sets in its pyproject.toml."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ropecli.errors import FileError
from ropecli.names import meant

COMMANDS = ("lint", "check")


def defaults(name: str, command: Any) -> dict[str, Any]:
    """Return the values of [tool.ropecli.COMMAND] by parameter; they count where none is given.

    They are those of the nearest pyproject.toml with such a table, from the working folder up.

    Args:
        name: Name of a command.
        command: The command, with its parameters.

    Raises:
        FileError: A file that can't be read, or an option that the command does not have.
    """
    if name not in COMMANDS:
        return {}
    here = Path.cwd()
    for path in (folder / "pyproject.toml" for folder in (here, *here.parents)):
        table = _table(path)
        if table is not None:
            break
    else:
        return {}
    for unknown in table.keys() - {*COMMANDS}:
        msg = f"{path}: [tool.ropecli] has tables {' and '.join(COMMANDS)}, got {unknown}"
        raise FileError(msg)
    options = {
        option.opts[-1].removeprefix("--"): option
        for option in command.params
        if option.param_type_name == "option"
    }
    found = {}
    for key, value in table.get(name, {}).items():
        if key not in options:
            msg = f"{path}: {name} has no option {key!r}{meant(key, options)}"
            raise FileError(msg)
        if isinstance(value, list) != options[key].multiple:
            msg = f"{path}: {name}.{key} must be "
            msg += f"{'a list' if options[key].multiple else 'one value'}, got {value!r}"
            raise FileError(msg)
        found[options[key].name] = value
    return found


def _table(path: Path) -> dict[str, Any] | None:
    """Return [tool.ropecli] of a file; None where there is none."""
    import tomllib

    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        msg = f"cannot read {path}: {getattr(error, 'strerror', None) or error}"
        raise FileError(msg) from None
    table = content.get("tool", {}).get("ropecli")
    return table if isinstance(table, dict) else None
