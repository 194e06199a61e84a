"""Description of an implementation: its parameters, and the frameworks it names."""

from __future__ import annotations

import ast
import functools
import inspect
import itertools
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ropecli.checks.implementation.calling.vocabulary import OF_BATCH, roles
from ropecli.checks.implementation.convention import FRAMEWORKS

MOST_METHODS = 24
FIRST = ("forward", "__call__", "call")
#: Words in the names of methods that write into files or elsewhere, and are never tried.
WRITES = {
    *("save", "write", "dump", "export", "push", "upload", "publish", "serialize", "log", "plot"),
    *("delete", "remove", "unlink", "send", "train", "fit"),
}
#: Modules whose arrays are those of a framework.
MODULES = {
    "numpy": ("numpy",),
    "torch": ("torch",),
    "jax": ("jax", "jaxlib", "equinox", "flax"),
    "mlx": ("mlx",),
}
OF_TEXT = "text_config"
_BASES = {"builtins", "torch", "abc", "typing", "equinox", "flax", "keras", "mlx"}


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """A parameter of an implementation."""

    name: str
    kind: str  #: As in `inspect`: POSITIONAL_ONLY, POSITIONAL_OR_KEYWORD, VAR_POSITIONAL, ...
    required: bool
    default: Any = None  #: Numbers, strings, booleans and None; anything else as its text.
    annotation: str = ""
    #: Of an annotation that is a class, such as a configuration: its name and parameters.
    made_by: tuple[str, tuple[Parameter, ...]] | None = None


@dataclass(frozen=True, kw_only=True)
class Description:
    """Description of an implementation."""

    name: str  #: The name by which a call names it.
    kind: str  #: "function", "class" or "instance".
    type_name: str  #: Name of its type.
    is_callable: bool  #: Whether it, or an instance of the class, can be called itself.
    parameters: tuple[Parameter, ...] | None  #: Of the function, or of the class; None: unknown.
    #: Of a class or instance: the parameters of its methods forward, __call__, ...
    methods: dict[str, tuple[Parameter, ...]] = field(default_factory=dict)
    frameworks: tuple[str, ...] = ()  #: That its code mentions, most likely first.
    other: str = ""  #: Name of the second function, which turns vectors by the first one's tables.
    other_parameters: tuple[Parameter, ...] | None = None
    module: str = ""  #: The module from which others import it; empty if it is in none.
    path: str = ""  #: Its name there, with dots where it is an attribute of a class.
    layer_types: tuple[str, ...] = ()  #: Of an instance: the types of layers that it has tables of.

    def promises_batch(self, role: str) -> bool:
        """Return True if an annotation or a docstring says that an argument is one of sequences."""
        every = self.all_parameters
        named = [p for p in every if role in roles(p.name, 1, p.annotation)]
        return any(OF_BATCH.search(p.annotation) for p in named)

    @property
    def all_parameters(self) -> list[Parameter]:
        """Its own parameters, and those of its methods."""
        return [*(self.parameters or ()), *itertools.chain(*self.methods.values())]


def describe(
    target: Any, name: str, other: Any = None, other_name: str = "", origin: str = ""
) -> Description:
    """Describe an implementation; its signature may be unknown, as of a compiled function."""
    kind = "class" if inspect.isclass(target) else "instance"
    compiled = ("__wrapped__", "__nb_signature__")
    is_function = inspect.isroutine(target) or isinstance(target, functools.partial)
    if kind == "instance" and (is_function or _has(target, *compiled)):
        kind = "function"
    owner = target if kind == "class" else type(target)
    methods = {} if kind == "function" else _methods(owner)
    known = parameters(target)
    module, path = _import_of(target, origin)
    if kind == "instance" and _has(target, "__signature__") and known is not None:
        methods = {"__call__": known}
    return Description(
        name=name,
        kind=kind,
        type_name=type(target).__name__,
        is_callable=any("__call__" in vars(base) for base in owner.__mro__),
        parameters=known,
        methods=methods,
        frameworks=frameworks(target, other),
        other=other_name,
        other_parameters=None if other is None else parameters(other),
        module=module,
        path=path,
        layer_types=_layer_types(target) if kind == "instance" else (),
    )


def _layer_types(target: Any) -> tuple[str, ...]:
    """Return the types of layers that an instance or its configuration names."""
    for owner in (target, _attribute(target, "config")):
        types = _attribute(owner, "layer_types")
        if isinstance(types, list | tuple) and all(
            isinstance(type_name, str) for type_name in types
        ):
            return tuple(sorted({*types}))
    return ()


def _attribute(owner: Any, name: str) -> Any:
    """Return an attribute, or None; asking may run foreign code."""
    try:
        return getattr(owner, name, None)
    except Exception:
        return None


def _import_of(target: Any, origin: str) -> tuple[str, str]:
    """Return the module and the name by which other code imports it; both empty if it can't."""
    module, _, path = origin.rpartition(":")
    if module.endswith(".py"):
        module = Path(module).stem
    if not origin:
        module = str(getattr(target, "__module__", None) or "")
        path = str(getattr(target, "__qualname__", ""))
    return (module, path) if all(map(str.isidentifier, f"{module}.{path}".split("."))) else ("", "")


def _has(target: Any, *names: str) -> bool:
    """Return True if an object has one of these attributes; asking may run foreign code."""
    try:
        return any(hasattr(target, name) for name in names)
    except Exception:
        return False


def _methods(owner: type) -> dict[str, tuple[Parameter, ...]]:
    """Return the parameters of a class's public methods that compute, and write nothing."""
    methods = {}
    for base in owner.__mro__:
        of_framework = base.__module__.partition(".")[0] in _BASES
        if base is not owner and of_framework:
            continue
        for name, method in vars(base).items():
            public = not name.startswith("_") and not {*name.split("_")} & WRITES
            public = name in FIRST if of_framework else public or name == "__call__"
            if public and inspect.isroutine(method) and name not in methods:
                static = isinstance(method, staticmethod)
                known = parameters(getattr(owner, name))
                if known is not None:
                    bound = static or isinstance(method, classmethod)
                    methods[name] = known if bound else known[1:]  # without self
    order = sorted(methods, key=lambda name: FIRST.index(name) if name in FIRST else len(FIRST))
    return {name: methods[name] for name in order[:MOST_METHODS]}


def parameters(target: Any, *, configurations: bool = True) -> tuple[Parameter, ...] | None:
    """Return the parameters of a callable; None if they are unknown."""
    try:
        signature = inspect.signature(target)
    except Exception:  # a signature may run foreign code
        return _describe_docstring(target)
    handed_on = _handed_on(target, signature)
    return tuple(
        Parameter(
            name=parameter.name,
            kind=parameter.kind.name,
            required=parameter.default is parameter.empty
            and parameter.kind not in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD},
            default=None if parameter.default is parameter.empty else _plain(parameter.default),
            annotation=_annotation(parameter.annotation)
            + _documented_batch(target, parameter.name),
            made_by=_made_by(target, parameter) if configurations else None,
        )
        for parameter in (*signature.parameters.values(), *handed_on)
    )


def _handed_on(target: Any, signature: inspect.Signature) -> list[inspect.Parameter]:
    """Return the parameters of the base that a class hands its `**kwargs` on to."""
    kinds_of_parameters = {parameter.kind for parameter in signature.parameters.values()}
    if not inspect.isclass(target) or inspect.Parameter.VAR_KEYWORD not in kinds_of_parameters:
        return []
    makers = [base for base in target.__mro__[:-1] if "__init__" in vars(base)]
    of_framework = [base.__module__.partition(".")[0] in _BASES for base in makers]
    if len(makers) < 2 or of_framework[1]:
        return []
    try:
        base = inspect.signature(makers[1])
    except Exception:  # as above
        return []
    more = [*base.parameters.values(), *_handed_on(makers[1], base)]
    known = {*signature.parameters}
    positional = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in more]
    variadic = {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}
    return [
        parameter
        for parameter, original in zip(positional, more, strict=True)
        if parameter.name not in known and original.kind not in variadic
    ]


def _documented_batch(target: Any, name: str) -> str:
    """Return what a docstring says of a parameter that is one of sequences.

    That is a line that begins with its name, or its shape in brackets behind the name.
    """
    text, word = str(getattr(target, "__doc__", None) or ""), re.escape(name)
    lines = rf"^\W*(?:param \w* ?)?{word}\b.*$|\b{word}\b`* (?:of (?:shape )?)?[(\[][^)\]]*[)\]]"
    said = (match[0] for match in re.finditer(lines, text, re.MULTILINE))
    return next((f" # {shape.strip()}" for shape in said if OF_BATCH.search(shape)), "")


def _describe_docstring(target: Any) -> tuple[Parameter, ...] | None:
    """Return the parameters that the first line of a compiled function's docstring shows."""
    text = (getattr(target, "__doc__", None) or "").strip().partition("\n")[0]
    try:
        (function,) = ast.parse(f"def {text.removeprefix('def ').rstrip(':. ')}: ...").body
    except (SyntaxError, ValueError):
        return None
    if not isinstance(function, ast.FunctionDef):
        return None
    words = function.args
    before = [*words.posonlyargs, *words.args]
    defaults = len(before) - len(words.defaults)
    return tuple(
        Parameter(
            name=argument.arg,
            kind="POSITIONAL_OR_KEYWORD" if argument in before else "KEYWORD_ONLY",
            required=i < defaults
            if argument in before
            else words.kw_defaults[i - len(before)] is None,
            annotation="" if argument.annotation is None else ast.unparse(argument.annotation),
        )
        for i, argument in enumerate([*before, *words.kwonlyargs])
    )


def _made_by(target: Any, parameter: inspect.Parameter) -> tuple[str, tuple[Parameter, ...]] | None:
    """Return the name and parameters of the class that a parameter is annotated with."""
    function = inspect.unwrap(target.__init__ if inspect.isclass(target) else target)
    around = getattr(function, "__globals__", {})
    annotation = parameter.annotation
    name = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    name = name.strip("'\"").partition(" | ")[0]
    kind = around.get(name)
    if kind is None and inspect.isclass(getattr(target, name or "_", None)):
        kind, name = getattr(target, name), f"{target.__name__}.{name}"
    if not inspect.isclass(kind) or kind.__module__.partition(".")[0] in _BASES:
        return None
    # Of a configuration of several models in one, as Transformers has them, that of the text.
    part = (getattr(kind, "sub_configs", None) or {}).get(OF_TEXT)
    if inspect.isclass(part) and not re.search("Vision|Audio|Image", target.__name__):
        kind, name = part, f"{name}.sub_configs['{OF_TEXT}']"
    known = parameters(kind, configurations=False)
    return None if known is None else (name, known)


def frameworks(*targets: Any) -> tuple[str, ...]:
    """Return the frameworks that the code of the targets names, most likely first.

    Those of annotations come first, then those of base classes, then what the module imports; last,
    what has been loaded by it.
    """
    if type(targets[0]).__module__.startswith(str(__package__)):
        return ("numpy",)  # a program, a shared library, or a model of ONNX
    names: list[str] = []
    for target in filter(lambda each: each is not None, targets):
        words = [parameter.annotation for parameter in parameters(target) or ()]
        words += [base.__module__ for base in getattr(target, "__mro__", type(target).__mro__)]
        function = inspect.unwrap(target) if callable(target) else target
        around = getattr(function, "__globals__", None)
        if around is None:
            module = sys.modules.get(getattr(target, "__module__", None) or "")
            around = {} if module is None else vars(module)
        values = [*around.values()]
        words += [
            getattr(value, "__name__", "")
            if inspect.ismodule(value)
            else str(getattr(value, "__module__", ""))
            for value in values
        ]
        names += _by_name(words)
    names += [name for name in _by_name([*sys.modules]) if name != "numpy"]
    return tuple(dict.fromkeys([*(name for name in names if name != "numpy"), "numpy"]))


def _by_name(words: list[str]) -> list[str]:
    heads = {word.partition(".")[0] for word in words}
    keras = sys.modules.get("keras")
    if keras is not None and heads & {"keras", "keras_hub"}:
        heads.add(keras.config.backend())  # Keras works with the arrays of its backend
    return [name for name in FRAMEWORKS if set(MODULES[name]) & heads]


def _annotation(annotation: Any) -> str:
    if annotation is inspect.Parameter.empty:
        return ""
    if isinstance(annotation, str):
        return annotation
    module, name = getattr(annotation, "__module__", ""), getattr(annotation, "__qualname__", "")
    return f"{module}.{name}" if name else str(annotation)


def _plain(value: Any) -> Any:
    """Return a default that any process reads: subclasses, such as of an enum, are foreign."""
    return value if type(value) in {int, float, str, bool, type(None)} else repr(value)[:80]
