"""Commands as short functions: groups of options in, a result shown, an exit code out."""

from __future__ import annotations

import functools
import inspect
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from dataclasses import Field, field, fields, is_dataclass
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType, NoneType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup
from typer.models import ArgumentInfo

from ropecli.cli.completion import completer
from ropecli.cli.parameters import Parsed
from ropecli.errors import ArgumentError

LARGEST = 10**400  #: More than any option takes; each has its own limit.
NUMBERS = re.compile(r"-[\d.]+(e[-+]?\d+)?\s*,")  #: Beginning of a list of numbers.


SUFFIXES = {"k": 2**10, "m": 2**20}  #: As lengths of contexts are called: 256k is 262,144.


def whole(text: str) -> int:
    """Return an integer, also of 1e9, 128.0 or 256k."""
    factor = SUFFIXES.get(text[-1:].lower(), 1)
    try:
        number = Decimal(text[:-1]) * factor if factor > 1 else Decimal(text)
        if number.is_finite() and number == number.to_integral_value() and abs(number) < LARGEST:
            return int(number)
    except ArithmeticError:
        pass
    raise typer.BadParameter(f"must be an integer, got {text!r}")


def real(text: str) -> float:
    """Return a number."""
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"must be a number, got {text!r}") from None


NOTHING: Mapping[str, Any] = MappingProxyType({})
PARSERS: dict[Any, Callable[[str], Any]] = {int: whole, float: real}


def argument(metavar: str, help: str) -> Any:
    """Declare an argument in the place of its default, as `field` does in a dataclass.

    An argument or an option is required if it has no default and its type does not allow None.
    """
    return _declare(None, typer.Argument(metavar=metavar, help=help))


def option(
    metavar: str,
    help: str,
    *spellings: str,
    default: Any = None,
    least: float | None = None,
    under: str | None = None,
) -> Any:
    """Declare an option with a value of at least `least`, in the help under a heading."""
    info = typer.Option(*spellings, metavar=metavar, help=help, min=least, rich_help_panel=under)
    return _declare(default, info)


def flag(
    spelling: str, help: str, *others: str, default: bool | None = False, under: str | None = None
) -> Any:
    """Declare an option without a value."""
    return _declare(default, typer.Option(spelling, *others, help=help, rich_help_panel=under))


def _declare(default: Any, info: Any) -> Any:
    return field(default=default, metadata={"option": info})


class Help(dict[str, str]):
    """Help texts for options of a group that mean something else in one command.

    `rope: Annotated[EncodingOptions, Help(dim="Head dim, even. [default: 128]")]`
    """


class Section(str):
    """Heading of options in the help of a command: of one option, or of a group.

    `rope: Annotated[EncodingOptions, Section("What is expected")]`
    """

    __slots__ = ()


class GroupedCommands(TyperGroup):
    """A group that lists its commands under the headings that they have."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the options in front of a command."""
        _read_plainly(self, ctx)
        left: list[str] = super().parse_args(ctx, args)
        return left

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands by heading."""
        sections: dict[str, list[tuple[str, str]]] = {}
        width = max(map(len, self.commands), default=0)
        for name, subcommand in self.commands.items():
            summary = subcommand.get_short_help_str(formatter.width - 6 - width)
            # Names of one width, so that the summaries of all groups begin in one column.
            sections.setdefault(getattr(subcommand, "rich_help_panel", "Commands"), []).append(
                (name.ljust(width), summary)
            )
        _write_sections(formatter, sections)


class SectionedCommand(TyperCommand):
    """A command that lists its options under the headings that they have."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take a list of numbers that begins with a minus, -1,2, for a value and not an option."""
        words = [f" {word}" if NUMBERS.match(word) else word for word in args]
        texts, _, given = self.make_parser(ctx).parse_args([*words])
        for option, times in Counter(given).items():
            text = str(texts[option.name])
            if option.metavar == "FILE" and text.endswith(os.sep):
                raise ArgumentError(f"{'/'.join(option.opts)} must be a file, got {text!r}")
            if times > 1 and _takes_one(option):
                raise ArgumentError(f"{'/'.join(option.opts)} takes one value, got {times}")
        _read_plainly(self, ctx)
        left: list[str] = super().parse_args(ctx, words)
        return left

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the words of the usage line: INPUT for what Typer writes as {INPUT}."""
        return [re.sub(r"\{(\w+)\}", r"\1", word) for word in super().collect_usage_pieces(ctx)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, then the options by heading."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            heading = getattr(parameter, "rich_help_panel", None)
            plain = "Arguments" if parameter.param_type_name == "argument" else "Options"
            if record is not None:
                if plain == "Arguments":
                    record = (str(parameter.metavar), record[1])
                sections.setdefault(heading or plain, []).append(record)
        # --help comes last, in the section that all commands have.
        sections.setdefault("Output", []).append(sections["Options"].pop())
        _write_sections(formatter, sections)


def _read_plainly(command: Any, ctx: Any) -> None:
    """Have a command read plain values itself: Typer imports Pydantic for each of them.

    Whatever is not plain, and so whatever is refused, is left to Typer.
    """
    hints = inspect.signature(command.callback).parameters
    for parameter in command.get_params(ctx):
        hint = hints[parameter.name].annotation if parameter.name in hints else None
        by_typer = functools.partial(type(parameter).process_value, parameter)
        parameter.process_value = functools.partial(
            _process, parameter, by_typer, *_kind_and_info(hint)
        )


def _process(
    parameter: Any, by_typer: Callable[..., Any], kind: Any, info: Any, ctx: Any, value: Any
) -> Any:
    """Return the value of a parameter, as its `process_value` does."""
    several = parameter.multiple or parameter.nargs == -1
    read: Any = None
    if value is None or (several and not value):
        if parameter.required:
            return by_typer(ctx, value)
        read = () if several else None
    else:
        try:
            read = [_plain(kind, info, x) for x in value] if several else _plain(kind, info, value)
        except (ValueError, typer.BadParameter):
            return by_typer(ctx, value)
    return read if parameter.callback is None else parameter.callback(ctx, parameter, read)


def _kind_and_info(hint: Any) -> tuple[Any, Any]:
    """Return the type of one value of an annotation, and Typer's description of it."""
    if get_origin(hint) is not Annotated:
        return None, None
    kind, info = get_args(hint)
    (kind,) = _kinds(kind) - {NoneType}
    return kind, info


def _plain(kind: Any, info: Any, value: Any) -> Any:
    """Return a plain value."""
    if isinstance(value, str) and kind in {int, float, Path}:
        value = PARSERS.get(kind, kind)(value)
    if kind not in {str, int, float, Path, bool} or not isinstance(value, kind):
        raise ValueError
    if kind is not bool and isinstance(value, bool):
        raise ValueError
    low, high = (getattr(info, name, None) for name in ("min", "max"))
    if (low is not None and not value >= low) or (high is not None and not value <= high):
        raise ValueError
    return value


def _takes_one(parameter: Any) -> bool:
    """Tell whether a second value of a parameter would replace the first one."""
    if parameter.param_type_name == "argument" or parameter.multiple:
        return False
    return not parameter.is_flag or bool(parameter.secondary_opts)


def _write_sections(formatter: Any, sections: dict[str, list[tuple[str, str]]]) -> None:
    for heading, records in sections.items():
        if records:
            with formatter.section(heading):
                formatter.write_dl(records)


def command(
    *, needs: Mapping[str, str] = NOTHING, excludes: Mapping[str, tuple[str, ...]] = NOTHING
) -> Callable[[Callable[..., bool | None]], Callable[..., None]]:
    """Make a command for Typer of a function that takes groups of options as one value each.

    A group is a frozen dataclass whose fields are options, in the help under its `heading` if it
    has one. The command gets them in the group's place, and hands them to the function as a group
    again. An option that the function itself has takes the place of the group's. One that several
    commands have is a type that holds it: `seed: Seed = 0`. A group with a field `parsed` gets the
    command line there. A function that returns False ends the command with exit code 1.

    Args:
        needs: The option without which another is refused, by the name of the other. A group may
            declare such too, and what the next ones are.
        excludes: Options that are refused in the presence of one, by its name.
    """

    def decorate(function: Callable[..., bool | None]) -> Callable[..., None]:
        return _command(function, needs, excludes)

    return decorate


def _command(
    function: Callable[..., bool | None],
    needs: Mapping[str, str],
    excludes: Mapping[str, tuple[str, ...]],
) -> Callable[..., None]:
    hints = get_type_hints(function, include_extras=True)
    signature = inspect.signature(function).parameters
    groups = {name: _group(hints[name]) for name in signature if _group(hints[name]) is not None}
    shared_names = signature.keys() - groups.keys()
    options: dict[str, inspect.Parameter] = {}
    for name, parameter in signature.items():
        if name in shared_names:
            options[name] = _parameter(name, hints[name], parameter.default)
        else:
            options |= {
                param.name: param
                for param in _options(hints[name])
                if param.name not in shared_names
            }
    for group in groups.values():
        needs = {**getattr(group, "needs", {}), **needs}
        excludes = {**getattr(group, "excludes", {}), **excludes}
    for name, param in options.items():
        info = _info(param)
        info.autocompletion = info.autocompletion or completer(function.__name__, name)
    arguments = frozenset(
        name for name, param in options.items() if isinstance(_info(param), ArgumentInfo)
    )
    several = frozenset(name for name, param in options.items() if _takes_several(param))

    @functools.wraps(function)
    def run(**parameters: Any) -> None:
        _check_combination(options, parameters, needs, excludes)
        parsed = Parsed(function.__name__.replace("_", "-"), parameters, arguments, several)
        values = {name: parameters[name] for name in shared_names}
        shared = {"parsed": parsed, **parameters}
        for name, group in groups.items():
            names = {member.name for member in fields(group)} & shared.keys() - shared_names
            values[name] = group(**{key: shared[key] for key in names})
        if function(**values) is False:
            raise typer.Exit(1)

    run.__signature__ = inspect.Signature([*options.values()])  # type: ignore[attr-defined]
    run.__annotations__ = {name: param.annotation for name, param in options.items()}
    return run


def _check_combination(
    options: Mapping[str, inspect.Parameter],
    parameters: Mapping[str, Any],
    needs: Mapping[str, str],
    excludes: Mapping[str, tuple[str, ...]],
) -> None:
    """Refuse options without those that they need, and next to those that exclude them."""

    def spelling(name: str) -> str:
        info = _info(options[name])
        if isinstance(info, ArgumentInfo):
            return str(info.metavar)
        # Typer takes the first spelling of an annotation for a default, until it reads it.
        spellings = [s for s in (info.default, *(info.param_decls or ())) if isinstance(s, str)]
        return spellings[0] if spellings else f"--{name.replace('_', '-')}"

    given = [
        name for name, value in parameters.items() if value not in (None, [], options[name].default)
    ]
    for name in given:
        if needs.get(name) in options and needs[name] not in given:
            raise ArgumentError(f"{spelling(name)} requires {spelling(needs[name])}")
    for name in given:
        refused = [spelling(other) for other in given if other in excludes.get(name, ())]
        if refused:
            raise ArgumentError(f"{', '.join(refused)} cannot be combined with {spelling(name)}")


def _parameter(name: str, hint: Any, default: Any) -> inspect.Parameter:
    """Return the parameter that Typer reads, with our parser if it takes integers or numbers."""
    if isinstance(default, Field):
        kind, declared, default = hint, default, default.default
    else:
        kind, declared = get_args(hint)
    info = copy(declared.metadata["option"])
    plain = next((parser_type for parser_type in PARSERS if parser_type in _kinds(kind)), None)
    if plain is not None and getattr(info, "min", None) is None:
        info.parser = PARSERS[plain]
    if default is None and NoneType not in _kinds(kind):
        default = inspect.Parameter.empty
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[kind, info],
    )


def _info(parameter: inspect.Parameter) -> Any:
    """Return Typer's description of a parameter."""
    return get_args(parameter.annotation)[1]


def _takes_several(parameter: inspect.Parameter) -> bool:
    kind = get_args(parameter.annotation)[0]
    return any(get_origin(hint) is list for hint in (kind, *get_args(kind)))


def _kinds(kind: Any) -> set[Any]:
    """Return the types that an annotation names: int of `list[int] | None`."""
    inner = get_args(kind)
    return set().union(*map(_kinds, inner)) if inner else {kind}


def _group(hint: Any) -> Any:
    """Return the dataclass of a group of options; None for an option."""
    kind = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    return kind if is_dataclass(kind) else None


def _options(hint: Any) -> Iterator[inspect.Parameter]:
    """Yield the options of a group, those of a subclass before those of its base."""
    group = _group(hint)
    helps = next((member for member in get_args(hint)[1:] if isinstance(member, Help)), Help())
    section = next((member for member in get_args(hint)[1:] if isinstance(member, Section)), None)
    heading = getattr(group, "heading", None)
    hints = get_type_hints(group, include_extras=True)
    declared = {
        member.name: member if member.metadata else member.default for member in fields(group)
    }
    order = [name for base in group.__mro__ for name in inspect.get_annotations(base)]
    for name in (key for key in dict.fromkeys(order) if key in declared and key != "parsed"):
        parameter = _parameter(name, hints[name], declared[name])
        info = _info(parameter)
        info.help = helps.get(name, info.help)
        info.rich_help_panel = section or info.rich_help_panel or heading
        yield parameter
