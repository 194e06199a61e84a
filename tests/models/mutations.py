"""Configurations changed at random: values of every wrong kind, keys dropped, moved, misspelt."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
from helpers import soon
from models.configs import ALL, RELEASED, published_configs
from models.lint.cases import CASES

from ropecli import RopecliError, lint, load_model
from ropecli.models.stacks import NATIVE, STACKS

WRONG: list[Any] = [
    None, True, False, 0, 1, -1, 2, 3, 7, 0.5, 1.5, -3.5, 1e-300, 1e300, 1e308, 10**18, 10**400,
    float("nan"), float("inf"), "", "8", "yarn", "llama3", "longrope", "dynamic", "\x00", "ü" * 99,
    [], [0], [1, 2, 3], [-1.0] * 64, ["a"], [None] * 5, [[]], {}, {"a": {}}, {"rope_type": "yarn"},
    {"full_attention": {"rope_type": "linear", "factor": 2}, "sliding_attention": None},
    {"factor": 8}, list(range(5000)),
]  # fmt: skip


def sound_files() -> list[dict[str, Any]]:
    """Files to start from, those that fire a rule of `lint` among them."""
    released = [*ALL.values(), *(keys for keys, _ in RELEASED.values())]
    tables = [entry["config"] for entry in published_configs().values()]
    return [*released, *tables, *(case.fires for case in CASES.values())]


def mutate(random: np.random.Generator, files: list[dict[str, Any]]) -> bytes:
    """One of the files with up to four changes, as bytes."""
    config = copy.deepcopy(files[random.integers(len(files))])
    for _ in range(random.integers(1, 5)):
        target: Any = config
        inner = [value for value in config.values() if isinstance(value, dict) and value]
        if inner and random.random() < 0.5:
            target = inner[random.integers(len(inner))]
        _change(random, target)
    data = json.dumps(config).encode()
    if random.random() < 0.1:  # and some that are no longer JSON
        place = int(random.integers(len(data)))
        data = data[:place] + bytes(random.integers(0, 256, random.integers(1, 4), np.uint8))
    return data


def _change(random: np.random.Generator, target: dict[str, Any]) -> None:
    keys = list(target)
    key = keys[random.integers(len(keys))] if keys else "rope_theta"
    match random.integers(6):
        case 0:
            target.pop(key, None)
        case 1:
            target[key[:-1]] = target.pop(key, None)
        case 2:
            other = keys[random.integers(len(keys))] if keys else "factor"
            target[other] = target.get(key)
        case _:
            target[key] = WRONG[random.integers(len(WRONG))]


def assert_judged_or_refused(data: bytes, folder: Path, fired: set[str] | None = None) -> bool:
    """Assert that a file is computed, or refused in one clear line; return whether it is computed.

    Other stacks than Transformers read fewer files.

    Args:
        data: Of the file.
        folder: To write it to.
        fired: Rules of `lint`, to which its own are added.
    """
    path = folder / "config.json"
    path.write_bytes(data)
    computed, messages = True, []
    with soon(data[:400]):  # read six times over
        try:
            found = lint(path)
            messages += [finding.message for finding in found]
            (set() if fired is None else fired).update(finding.rule for finding in found)
        except RopecliError as error:
            computed = False
            messages.append(str(error))
        for stack in STACKS:
            try:
                load_model(path, reading=stack, sequence_length=70_000)
            except RopecliError as error:
                computed = computed and stack != NATIVE["config.json"]
                messages.append(str(error))
    for message in messages:
        assert message, data[:400]
        assert "\n" not in message, data[:400]
        assert len(message) < 600, data[:400]
    return computed
