"""Every mistake of a user: one line that says what was given and what is expected, exit code 2."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from helpers import assert_refused, random_array
from models.configs import GEMMA_3, LLAMA_31, SMOLLM3
from safetensors.numpy import save_file

TO_HALF = "m.safetensors --to half --heads 4 --kv-heads 2"
PERMUTE = "m.safetensors -o out.safetensors --to half"


# The files that the lines name, command by command.


def save_all(**arrays: object) -> None:
    """Write each array into a .npy file of its name."""
    for name, array in arrays.items():
        np.save(f"{name}.npy", np.asarray(array))


def write_models() -> None:
    models = {"config": LLAMA_31, "gemma": GEMMA_3, "smollm": SMOLLM3}
    models["nope"] = SMOLLM3 | {"no_rope_layers": [0] * SMOLLM3["num_hidden_layers"]}
    for name, config in models.items():
        Path(f"{name}.json").write_text(json.dumps(config))


def write_vectors() -> None:
    write_models()
    q, k, *rows = random_array(5, 8, dtype="f8")
    save_all(q=q, k=k, rows=rows, none=np.ones((0, 8)), scalar=3.0, bool=q > 0)
    save_all(void=np.ones(8, "V2"), wide=np.ones(128))
    np.save("objects.npy", np.array([1, "a"], dtype=object), allow_pickle=True)
    Path("words.npy").write_text("these are words")
    Path("folder").mkdir()


def write_tokens() -> None:
    write_models()
    q = random_array(6, 4, dtype="f8")
    save_all(q=q, k=q, v=q[:, :3], vector=q[0], short=q[:5, :3], wide=np.ones((6, 1026)))
    save_all(
        rows=np.ones((3, 8)), one=np.ones((1, 8)), nan=np.where(np.arange(6) == 2, np.nan, q.T).T
    )


def write_embeddings() -> None:
    write_models()
    x = random_array(3, 50, 16)
    save_all(x=x, scalar=x[0, 0, 0], vector=x[0, 0], odd=x[0, :4, :7], whole=np.ones((4, 8), int))
    save_all(three=np.arange(3), nan=np.full(50, np.nan))
    save_all(there=x[0, :1, :2], wide=random_array(2, 2, 2, 8))
    np.save("object.npy", np.array([[{}]], object), allow_pickle=True)
    Path("empty.npy").write_bytes(b"")
    Path("short.npy").write_bytes(Path("x.npy").read_bytes()[:-1])
    x.tofile("x.bin")
    Path("folder.npy").mkdir()
    Path("link.npy").symlink_to("x.npy")
    Path("dump").mkdir()
    for name in ("dump/1", "dump/2", "two"):
        arrays = {"a": x[0, :4, :8], "b": x[1, :4, :8], "c": x[2, :4, :7]}
        save_file(
            {name: np.ascontiguousarray(array) for name, array in arrays.items()},
            f"{name}.safetensors",
        )


def write_rotated() -> None:
    write_models()
    x = random_array(2, 512, 8, dtype="f8")
    save_all(before=x, after=x, flat=np.ones(4), short=x[0, :3], whole=x.astype(int))
    save_all(nan=np.where(x == x[0, 1, 2], np.nan, x), odd=np.ones((4, 3)), odd2=np.ones((4, 3)))
    save_all(column=np.arange(512)[:, None])
    np.savez("two.npz", a=np.ones((3, 8)), b=np.ones((3, 8)))
    Path("loop.npy").symlink_to("loop.npy")
    contents = {"words.npy": b"these are words", "words.safetensors": b"these are words"}
    for name, content in (contents | {"empty.npz": b"", "before.txt": b""}).items():
        Path(name).write_bytes(content)


def write_sources() -> None:
    write_models()
    Path("bad.json").write_text(json.dumps(LLAMA_31 | {"rope_scaling": {"rope_type": "lama3"}}))


def write_weights() -> None:
    small = {"hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2}
    Path("config.json").write_text(json.dumps(LLAMA_31 | small))
    rows = {"q": 32, "k": 16}
    arrays = {f"{name}_proj.weight": random_array(count, 6) for name, count in rows.items()}
    save_file(arrays, "m.safetensors")
    Path("there.safetensors").write_bytes(b"no weights at all")


def write_code() -> None:
    sources = {"import": "import no_such_module_anywhere", "three": "f = 3"}
    for name, source in (sources | {"exit": "raise SystemExit(0)", "nothing": ""}).items():
        Path(f"{name}.py").write_text(source)


FILES: dict[str, Callable[[], None]] = {
    "decay": write_vectors,
    "verify": write_models,
    "scores": write_tokens,
    "linear": write_tokens,
    "encode": write_embeddings,
    "rotate": write_vectors,
    "inspect": write_sources,
    "lint": write_sources,
    "diff": write_models,
    "identify": write_rotated,
    "check": write_code,
    "vectors": write_code,
    "permute": write_weights,
}


#: What is typed, and the message; `...` stands for anything.
REFUSED: dict[str, list[tuple[str, str]]] = {
    "decay": [
        ("--dim 7", "head dim must be an even number of at least 2, got 7"),
        ("-o dir.png/", "-o/--output must be a file, got 'dir.png/'"),
        ("--width 4", "--width requires -o"),
        ("--rope-type linear --set factor=abc", "--set factor must be a number, got 'abc'"),
        ("--base -1", "base must be finite and above 0, got -1"),
        ("--layout sideways", "layout must be interleaved or half, got 'sideways'"),
        ("--rotary-dim 3", "rotary dim must be an even number of at least 2, got 3"),
        ("--figure2 --max-dist 9", "--start, --max-dist and --step are those of --figure2;..."),
        ("--figure2 --reduce sum", "--reduce cannot be combined with --figure2"),
        ("--figure2 --q q.npy --k k.npy", "--q, --k cannot be combined with --figure2"),
        (
            "-o figure.bmp",
            "output must end in .png, .svg, .pdf, .csv, .md, .tex, .json, got 'figure.bmp'",
        ),
        ("--dim 64 --dim 1.5", "...--dim...'1.5'..."),
        ("--q q.npy", "--q requires --k"),
        ("--k k.npy", "--k requires --q"),
        ("--q-row 0", "--q-row requires --q"),
        ("--k-row 2", "--k-row requires --k"),
        ("--q missing.npy --k k.npy", "cannot read missing.npy: No such file or directory"),
        ("--q folder --k k.npy", "folder is a folder; expected a .npy file"),
        ("--q words.npy --k k.npy", "words.npy starts with b'these '; expected a .npy file"),
        (
            "--q objects.npy --k k.npy",
            "objects.npy holds Python objects, which are never loaded; expected integers or floats",
        ),
        ("--q void.npy --k k.npy", "void.npy holds 2-byte void elements; expected integers or..."),
        ("--q bool.npy --k k.npy", "bool.npy holds booleans; expected integers or floats"),
        ("--q none.npy --k k.npy", "none.npy has shape (0, 8); expected a vector, or a..."),
        ("--q scalar.npy --k k.npy", "scalar.npy has shape (); expected a vector, or a..."),
        ("--q q.npy --k k.npy --dim 6", "q must have shape (6,), got (8,)"),
        ("--q q.npy --k k.npy --q-row 0", "q.npy holds one vector and no rows, got row 0"),
        ("--q rows.npy --k k.npy --q-row 3", "rows.npy has rows 0 to 2, or -3 to -1, got row 3"),
        ("--q /dev/zero --k k.npy", "/dev/zero is not a regular file; expected a .npy file"),
        ("--encoding foo", "encoding must be one of alibi, cope, ..., got 'foo'"),
        ("--encoding t5 --dim 4 --dim 8", "...one --dim, --base, --model or --layer"),
        (
            "--encoding t5 --max-dist 2.5",
            "--encoding requires integer distances, got --max-dist 2.5",
        ),
        ("--encoding t5 --figure2", "--figure2 cannot be combined with --encoding"),
        (
            "--encoding t5 --q absent.npy --k k.npy --k-row 0",
            "--q, --k, --k-row cannot be combined with --encoding",
        ),
        ("--q 1,2,3 --k 1,2", "--q must have an even number of coordinates, at least 2, got 3"),
        ("--q 1,x --k 1,2", "--q must be numbers with commas, or a file, got '1,x'"),
        ("--q 1,2 --k 1,2 --q-row 0", "--q-row needs a file, got row 0 of numbers that were typed"),
        ("--at 3", "--at requires --q"),
        ("--positions 3", "--positions requires --encoding"),
        ("--encoding t5 --positions 3", "--positions requires --encoding sinusoidal"),
        ("--encoding sinusoidal --positions 0", "positions must be from 1 to 4,096, got 0"),
        ("--encoding t5 --seed -1", "seed must be at least 0, got -1"),
        ("--dim 8 --seed -1", "seed must be at least 0, got -1"),
        ("--layer all", "--layer requires --model"),
        ("--set factor", "--set must be KEY=VALUE, got 'factor'"),
        ("--set =4", "--set must be KEY=VALUE, got '=4'"),
        ("--set factor=4 --set factor=8", "--set factor was given twice"),
        ("--set rope_theta=5", "--set rope_theta: give it with --base"),
        ("--set factor=4", "rope type default has no parameter factor; its parameters are none"),
        ("--rope-type yern", "rope type must be one of axial, ..., got 'yern'; did you mean yarn?"),
        ("--rope-type linear", "rope type linear needs factor; its parameters are factor"),
        ("--sequence-length 9", "...has no parameter sequence_length; its parameters are..."),
        ("--model missing.json", "cannot read missing.json: No such file or directory"),
        (
            "--dim 8 --rope-type linear --set factr=2",
            "rope type linear has no parameter factr; its parameters are factor",
        ),
        ("--model config.json --dim 0", "--dim cannot be combined with --model"),
        ("--model config.json --rotary-dim 8", "--rotary-dim cannot be combined with --model"),
        ("--model config.json --layout up", "layout must be interleaved or half, got 'up'"),
        (
            "--model config.json --rope-type linear --context 8192",
            "rope type linear needs factor; pass --set factor=F, or --context N above 8,192",
        ),
        (
            "--model config.json --rope-type longrope",
            "Transformers refuses it: rope type longrope needs short_factor, long_factor",
        ),
        (
            "--model config.json --set factor=-1",
            "--set factor must be finite and above 0, got -1",
        ),
        (
            "--model gemma.json --rope-type yarn --context 262144",
            "layer sliding_attention takes no rope type yarn from its file: it has rope type "
            "default; choose one with --layer",
        ),
        (
            "--model smollm.json --layer nope",
            "layer nope of smollm.json has no rotary position embedding",
        ),
        ("--context 0", "context must be from 1 to 2^53, got 0"),
        ("--set max_position_embeddings=9", "--set max_position_embeddings: give it with..."),
        ("--set rope_type=4", "--set rope_type: give it with --rope-type"),
        ("--set head_dim=4", "--set head_dim: give it with --dim"),
        ("--set layout=4", "--set layout: give it with --layout"),
        ("--set rotary_dim=4", "--set rotary_dim: give it with --rotary-dim"),
        ("--set sequence_length=4", "--set sequence_length: give it with --sequence-length"),
        ("--model config.json --q wide.npy --k q.npy", "k must have shape (128,), got (8,)"),
        (
            "--rope-type yarn --set factor=2 --set original_max_position_embeddings=9 --set ramp=x",
            "--set ramp must be code or paper, got 'x'",
        ),
    ],
    "verify": [
        ("--dtype int8", "dtype must be one of float64, float32, float16, bfloat16, got 'int8'"),
        ("--seed -1", "seed must be at least 0, got -1"),
        ("--max-position 99999999999999999999", "max position must be from 1 to 2^49, got 9999..."),
        ("--max-position 1e-5", "...--max-position...'1e-5'..."),
        ("--encoding foo", "encoding must be one of alibi, cope, ..., got 'foo'"),
        ("--encoding t5 --dim 4", "--dim cannot be combined with --encoding"),
        (
            "--encoding t5 --max-position 0",
            "--max-position cannot be combined with --encoding",
        ),
        ("--encoding t5 --heads 0", "heads must be at least 1, got 0"),
        ("--heads 3", "--heads requires --encoding"),
        ("--model-dim 0", "--model-dim requires --encoding"),
        ("--model config.json --dim 0", "--dim cannot be combined with --model"),
        ("--model gemma.json", "...choose one with --layer..."),
    ],
    "scores": [
        ("--attention", "--attention requires -o"),
        (
            "--x q.npy --same-token",
            "--same-token/--random-tokens cannot be combined with --x",
        ),
        ("--encodings nope --base 9", "--base is for the encoding rope, got nope"),
        (
            "--encodings rope,nope --set order=x",
            "--set order: must be NAME.KEY, NAME one of rope, nope",
        ),
        (
            "--encodings rope --set rotary=1",
            "rope type default has no parameter rotary; its parameters are none",
        ),
        ("--encodings nope --set order=1", "encoding nope has no option 'order'; it has none"),
        ("--set order", "--set must be KEY=VALUE, got 'order'"),
        ("--encodings rotary", "encoding must be one of alibi, ..., got 'rotary'"),
        ("--encodings rope,", "encoding must be one of alibi, ..., got ''"),
        ("--model-dim 10", "model_dim must be a multiple of heads, got 10 and 4"),
        ("--length 0", "--length must be at least 1, got 0"),
        (
            "--encodings learned --shift 1000000000000000",
            "shift 1000000000000000 is too far for learned: query_positions must be from 0 to...",
        ),
        ("-o x.npy", "output must end in .png, .svg, .pdf, .csv, .md, .tex, .json, got 'x.npy'"),
        ("--x none.npy", "cannot read none.npy: No such file or directory"),
        ("--x rows.npy --model-dim 9", "--model-dim must be that of rows.npy, 8, got 9"),
        ("--x vector.npy", "vector.npy has shape (4,); expected (tokens, model dim)"),
        ("--x one.npy --queries 2 --heads 1", "queries must be 1, the number of tokens, got 2"),
        ("--weights none.npz --encodings nope", "cannot read none.npz: No such file or directory"),
    ],
    "linear": [
        ("--length 0", "--length must be from 1 to 1,048,576, got 0"),
        ("--length 65537 --dim 1024", "--length must be from 1 to 65,536, got 65537"),
        ("--dim 1026", "head dim must be at most 1024, got 1026"),
        ("--seed -1", "seed must be at least 0, got -1"),
        ("--feature-map cos", "feature map must be one of elu, exp, softmax, relu, got 'cos'"),
        ("--feature-map math:tau", "math must have a function 'tau'"),
        (
            "--feature-map :f",
            "function must be given as module:function or file.py:function, got ':f'",
        ),
        (
            "--feature-map no_such_thing:f",
            "no_such_thing can't be imported: ModuleNotFoundError: No module named 'no_such_thing'",
        ),
        ("-o cost.png", "output must end in .csv, .md, .tex, .json, got 'cost.png'"),
        ("-o none/x.csv", "cannot write .../none/x.csv: there is no folder .../none"),
        ("--q q.npy", "--q requires --k"),
        ("--k k.npy --v v.npy", "--v requires --q"),
        ("--q q.npy --k k.npy --v none.npy", "cannot read none.npy: No such file or directory"),
        ("--q q.npy --k v.npy --v v.npy", "v.npy must have the shape of q.npy, (6, 4), got (6, 3)"),
        ("--q q.npy --k k.npy --v short.npy", "short.npy must have shape (6, values), got (5, 3)"),
        ("--q vector.npy --k k.npy --v v.npy", "vector.npy has shape (4,); expected (tokens,..."),
        ("--q nan.npy --k k.npy --v v.npy", "nan.npy must be finite, and is not in row 2"),
        ("--q wide.npy --k wide.npy --v v.npy", "head dim must be at most 1024, got 1026"),
        (
            "--q q.npy --k k.npy --v wide.npy",
            "wide.npy must be at most 1024 wide and 67,108,864 numbers large, got shape (6, 1026)",
        ),
        ("--q q.npy --k k.npy --v v.npy --length 5", "--length must be that of q.npy, 6, got 5"),
        ("--q q.npy --k k.npy --v v.npy --dim 6", "--dim must be that of q.npy, 4, got 6"),
        (
            "--q q.npy --k k.npy --v v.npy --model config.json",
            "q must have shape (tokens, 128), got (6, 4)",
        ),
        ("--length many", "Invalid value for '--length': must be an integer, got 'many'"),
    ],
    "rotate": [
        ("1,2,3", "VECTOR must have an even number of coordinates, at least 2, got 3"),
        ("1,x", "VECTOR must be numbers with commas, or a file, got '1,x'"),
        ("1,2 --row 1", "--row needs a file, got row 1 of numbers that were typed"),
        ("1,2 --dim 4", "VECTOR must have the head dim, 4, got 2 numbers"),
        ("1,2 --position inf", "positions must be finite and at most 2^53 in magnitude, got..."),
    ],
    "encode": [
        ("missing.npy", "cannot read missing.npy: No such file or directory"),
        ("folder.npy", "folder.npy is a folder; expected a .npy file"),
        ("empty.npy", "empty.npy is empty; expected a .npy file"),
        ("short.npy", "...bytes after its header, but shape (3, 50, 16) of float32 needs..."),
        ("scalar.npy", "scalar.npy has shape (); expected a vector, or several along the other..."),
        ("vector.npy", "vector.npy has shape (16,), a single vector; give its position with..."),
        ("odd.npy", "head dim must be an even number of at least 2, got 7"),
        ("whole.npy", "whole.npy holds int64; expected float64, float32, float16, bfloat16"),
        ("object.npy", "...Python objects, which are never loaded; expected float64, float32,..."),
        ("x.npy --dim 6", "the last axis must be a multiple of the head dim 6, got 16 in..."),
        ("x.npy --sequence-axis 2", "sequence axis must be from 0 to 1 or from -3 to -2, got 2"),
        ("x.npy --dtype float16", "x.npy holds float32, not float16; omit --dtype"),
        ("x.npy --dtype int8", "dtype must be one of float64, float32, float16, bfloat16, got..."),
        (
            "x.npy --positions three.npy",
            "positions of three.npy must have shape (50,) or (3, 50), got (3,)",
        ),
        ("x.npy --positions nan.npy", "positions must be finite and at most 2^53 in..."),
        ("x.npy --positions none.npy", "cannot read none.npy: No such file or directory"),
        ("x.npy --offset 9007199254740992", "...2^53 in magnitude, got 9007199254740992 to..."),
        ("x.npy -o link.npy --force", "input and output are the same file: x.npy"),
        ("x.npy -o there.npy", ".../there.npy exists; pass --force to replace it"),
        ("x.npy -o y.txt", "...expected a name that ends in .npy, .npz, .safetensors, .bin,..."),
        ("x.npy -o no/folder/y.npy", "...there is no folder..."),
        ("x.npy -o folder.npy --force", "cannot write .../folder.npy: it is a folder"),
        ("x.npy -o x.npy/y.npy", "cannot write x.npy/y.npy: Not a directory"),
        ("dump --tensor a", "a folder as INPUT needs another for the outputs: give -o FOLDER"),
        ("dump/*.npy", "no file matches dump/*.npy"),
        ("dump/1.safetensors dump/2.safetensors -o x.npy --tensor a", "...go into a folder,..."),
        ("- dump/2.safetensors --tensor a", "- is one file, got it among several"),
        ("x.npy --check y.npy -o z.npy", "--check writes nothing: leave -o out"),
        ("x.npy --check y.npy --force", "--check writes nothing: leave --force out"),
        ("dump --check y.npy", "--check compares one file with one, got 2"),
        ("x.bin", "x.bin has no header; shape and dtype are required; pass --shape and..."),
        (
            "x.bin --shape 3,50 --dtype float32",
            "x.bin holds 9,600 bytes, but shape (3, 50) of float32 needs 600",
        ),
        (
            "x.npy --shape 3,50,16 --dtype float32",
            "x.npy is a .npy file, which contains its shape; omit --shape",
        ),
        ("x.bin --shape 3,50,16 --dtype float32 -o z.txt", "...expected a name that ends in..."),
        ("x.npy --check none.npy", "cannot read none.npy: No such file or directory"),
        ("x.npy --check wide.npy", "wide.npy is (2, 2, 2, 8) float32, expected (3, 50, 16)..."),
        ("x.npy --check x.npy --positions-continue", "--check compares one file with one:..."),
        ("two.safetensors --tensor * --dim 8", "the last axis must be a multiple of the head..."),
        ("two.safetensors --tensor [ab] -o y.npy", "cannot write y.npy: it holds one tensor,..."),
        ("x.npy -o y.npy --scheduler nowhere", "scheduler must be an address such as..."),
        ("there.npy --sequence-axis 1", "sequence axis must be 0 or -2, got 1"),
        ("x.npy there.npy -o -", "outputs of several files go into a folder, got -"),
        ("dump/1.safetensors -o new.safetensors", "dump/1.safetensors holds 3 tensors, name..."),
        ("dump/1.safetensors --tensor x*", "dump/1.safetensors holds no tensor 'x*'; expected..."),
        ("dump/1.safetensors --tensor [ab] -o all.npy", "cannot write all.npy: it holds one..."),
    ],
    "inspect": [
        ("config.json -o x.txt", "output must end in .png, .svg, .pdf, got 'x.txt'"),
        ("missing.json", "cannot read missing.json: No such file or directory"),
        ("config.json --layer full", "layer must be one of all, got 'full'; leave --layer out"),
        ("bad.json", "...; see ropecli lint bad.json..."),
        ("absent.json -o new.svg", "cannot read absent.json: No such file or directory"),
    ],
    "lint": [
        ("", "name a model: config.json, its folder, .gguf, example:NAME, or - for stdin"),
        ("missing.json", "cannot read missing.json: No such file or directory"),
        ("--json config.json missing.json", "cannot read missing.json: No such file or directory"),
        ("--sarif config.json missing.json", "cannot read missing.json: No such file or directory"),
        (
            "--select R12 config.json",
            "rule must be one of R001 to ..., got 'R12'; ropecli lint --rules lists them",
        ),
        ("--ignore X config.json", "...got 'X'; ropecli lint --rules lists..."),
        ("-o x.sarif config.json", "-o writes SARIF or a fixed copy, and needs --sarif..."),
        ("--sarif --json config.json", "--json and --sarif both print to stdout: choose one,..."),
        ("--sarif -o no/x config.json", "cannot write .../no/x: there is no folder .../no"),
        ("- -", "stdin (-) can be given only once, got - twice"),
    ],
    "diff": [
        ("config.json missing.json", "cannot read missing.json: No such file or directory"),
        ("config.json --as trt", "reading must be one of transformers, vllm, llama.cpp,..."),
        (
            "config.json --as vllm --as vllm --as vllm",
            "--as can be given at most twice (A, B), got 3: vllm, vllm, vllm",
        ),
        ("config.json gemma.json -o x.csv", "output must end in .png, .svg, .pdf, got 'x.csv'"),
        ("config.json gemma.json --layer x", "layer must be one of all, got 'x'; leave..."),
        ("- -", "stdin (-) can be given only once: name one of the two, or omit it with --as"),
        ("config.json", "one source needs --as STACK, such as vllm, or a second source"),
    ],
    "identify": [
        ("missing.npy after.npy", "cannot read missing.npy: No such file or directory"),
        ("missing.h5 missing.h5", "cannot read missing.h5: No such file or directory"),
        ("before.npy missing.npz", "cannot read missing.npz: No such file or directory"),
        ("before.npy before.npy", "before and after are the same tensor of before.npy: name..."),
        ("two.npz two.npz --tensor a", "before and after are the same tensor of two.npz: name..."),
        ("two.npz after.npy", "two.npz holds 2 tensors, name one of a, b"),
        ("two.npz after.npy --tensor c", "two.npz holds no tensor 'c'; expected one of a, b"),
        ("before.npy after.npy --tensor q", "before.npy holds one array without a name, got..."),
        ("words.npy after.npy", "words.npy starts with b'these '; expected a .npy file"),
        ("empty.npz after.npy", "cannot read empty.npz: File is not a zip file"),
        ("words.safetensors after.npy", "words.safetensors is not a whole .safetensors file:..."),
        ("before.txt after.npy", "cannot read before.txt; expected a name that ends in .npy,..."),
        ("flat.npy after.npy", "flat.npy has shape (4,); expected two axes or more, the last..."),
        ("flat.npy after.npy --sequence-axis 9", "flat.npy has shape (4,); expected two axes..."),
        ("short.npy after.npy", "before and after must have one shape, got (3, 8) and (2, 512, 8)"),
        ("whole.npy after.npy", "before must be float64, float32, float16, bfloat16, got int64"),
        (
            "nan.npy after.npy",
            "before must be finite, got 1 non-finite value, the first nan in row 1, coordinate 2 "
            "of before[0]",
        ),
        ("odd.npy odd2.npy", "head dim must be an even number of at least 2, got 3"),
        ("before.npy after.npy --dim 6", "the last axis must be a multiple of the head dim 6,..."),
        ("loop.npy after.npy", "cannot read loop.npy: Too many levels of symbolic links"),
        ("before.npy after.npy --sequence-axis 2", "sequence axis must be from 0 to 1 or from..."),
        ("before.npy after.npy --positions short.npy", "positions must have shape (512,) or..."),
        ("before.npy after.npy --positions nan.npy", "positions must be finite and at most..."),
        ("before.npy after.npy --positions column.npy", "positions must have shape (512,) or..."),
        (
            "before.npy after.npy --positions two.npz",
            "--positions must be a file of one array, got two.npz with 2: a, b",
        ),
        ("before.npy after.npy --positions missing.npy", "cannot read missing.npy: No such..."),
        ("before.npy after.npy --dtype int8", "dtype must be one of float64, float32, float16,..."),
        ("before.npy after.npy --dtype bfloat16", "before.npy holds float64, not bfloat16;..."),
        ("before.npy after.npy --model missing.json", "cannot read missing.json: No such file..."),
        ("before.npy after.npy --model nope.json", "nope.json has no layer with a rotary..."),
        (
            "before.npy after.npy --model config.json --layer x",
            "layer must be one of all, got 'x'; leave --layer out",
        ),
        ("before.npy after.npy --model - --model -", "stdin (-) can be given only once, got..."),
        ("before.npy after.npy --layer all", "--layer requires --model"),
        ("before.npy after.npy --sequence-length 9", "--sequence-length requires --model"),
        ("before.npy", "Missing argument 'AFTER'; see ropecli identify --help"),
    ],
    "check": [
        ("nowhere.py:f", "cannot read nowhere.py: No such file or directory"),
        ("nowhere.onnx", "cannot read nowhere.onnx: no such file"),
        ("nowhere.so:rope_f32", "cannot read nowhere.so: no such file"),
        ("import.py:f --with nowhere.py:f", "cannot read nowhere.py: No such file or directory"),
        ("--command './nowhere {x} {positions} {out}'", "no program ./nowhere"),
        ("--command 'nowhere {x} {out}'", "no program nowhere"),
        ("--command './three.py {x} {out}'", "./three.py is not a program"),
        ("", "either a target or a command must be given, got neither"),
        ("math", "function must be given as module:function or file.py:function, got 'math'"),
        ("math:sqrt --form call", "form must be one of apply, tables, module, decoder, got 'call'"),
        ("math:sqrt --init base", "--init must be KEY=VALUE, got 'base'"),
        ("math:sqrt --layer all", "--layer requires --model"),
        ("math:sqrt --form decoder", "form decoder takes a class, got a builtin_function_or_me..."),
        ("math:sqrt --device tpu", "device must be cpu with numpy, got 'tpu'"),
        ("import.py:f", "import.py can't be imported: ModuleNotFoundError: No module named..."),
        ("exit.py:f", "exit.py can't be imported: SystemExit: 0"),
        ("three.py:f", "three.py must have a function 'f'"),
    ],
    "vectors": [
        ("-o golden --seed -1", "seed must be at least 0, got -1"),
        ("-o none/golden", "cannot write .../none/golden: there is no folder .../none"),
        ("-o nothing.py", "cannot write .../nothing.py: it is not a folder"),
        ("", "Missing option '-o' / '--output'; see ropecli vectors --help"),
    ],
    "permute": [
        (f"{PERMUTE} --heads 5", "...has 32 rows, which 5 heads do not divide; check the..."),
        (
            f"{PERMUTE} --heads 4",
            "...but 4 key heads of 8 have 32 rows; check the number of heads, or choose...",
        ),
        (f"{PERMUTE} --heads 4 --kv-heads 3", "heads must be a multiple of kv heads, both at..."),
        (PERMUTE, "the number of heads is needed; pass --heads and --kv-heads, or --model"),
        (f"{PERMUTE} --model config.json --heads 4", "--heads cannot be combined with --model"),
        (f"{PERMUTE} --heads 4 --kv-heads 2 --layer all", "--layer requires --model"),
        (f"{PERMUTE} --model none.json", "cannot read none.json: No such file or directory"),
        (
            "m.safetensors -o out.safetensors --heads 4 --kv-heads 2 --to full",
            "layout must be interleaved or half, got 'full'",
        ),
        (f"{PERMUTE} --heads 4 --kv-heads 2 --tensor x*", "...no tensor whose name matches x*..."),
        (f"{TO_HALF} -o m.safetensors --force", "...the same file:..."),
        (f"{TO_HALF} -o there.safetensors", "...exists; pass --force..."),
        (f"{TO_HALF} -o out.npz", "...a name that ends in .safetensors..."),
        (
            "there.safetensors -o out.safetensors --to half --heads 4",
            "there.safetensors is not a whole .safetensors file: 17 bytes without a whole header",
        ),
    ],
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """For each command a folder with its files."""
    made = {}
    with pytest.MonkeyPatch.context() as patch:
        for command, write in FILES.items():
            made[command] = tmp_path_factory.mktemp(command)
            patch.chdir(made[command])
            write()
    return made


@pytest.mark.parametrize("command", REFUSED)
def test_mistake(command: str, folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is written, and no file is touched; `...` in a message stands for anything."""
    monkeypatch.chdir(folders[command])
    before = {path: path.lstat().st_mtime_ns for path in Path().rglob("*")}
    for words, message in REFUSED[command]:
        got = assert_refused(command, *shlex.split(words), *["-q"] * (command == "check"))
        pattern = re.escape(message).replace(re.escape("..."), ".*")
        assert re.fullmatch(pattern, got), f"{words}: {got}"
    assert {path: path.lstat().st_mtime_ns for path in Path().rglob("*")} == before


@pytest.mark.parametrize("command", FILES)
def test_json_of_a_mistake_leaves_stdout_empty(
    command: str, folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folders[command])
    words = REFUSED[command][0][0]
    assert assert_refused(command, *shlex.split(words), "--json", "-q")
