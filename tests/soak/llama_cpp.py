"""Rotations of llama.cpp's own library, from a config.json: a script that runs in a process.

`python llama_cpp.py SOURCE LIBRARIES`, with the unpacked source package of llama-cpp-python and
the folder of the libraries built from it. A configuration on each line of the input, with its
sequence length, gives a line of the output.

llama.cpp's converter writes keys and tensors from the configuration alone. A model that has these
keys with fewer and narrower blocks then runs on four tokens, and each rotation in its graph is
repeated by ggml's kernel on basis vectors.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Keys that the converter needs, and that have nothing to do with positions.
FILLED = {"vocab_size": 128, "intermediate_size": 256, "rms_norm_eps": 1e-6, "layer_norm_eps": 1e-5}
#: Values of keys, by the end of their names, that make a model small.
SMALL = {
    "attention.head_count": 2,
    "attention.q_lora_rank": 64,
    "expert_count": 8,
    "expert_feed_forward_length": 32,
    "expert_group_count": 1,
    "expert_group_used_count": 1,
    "expert_shared_feed_forward_length": 32,
    "expert_used_count": 2,
    "feed_forward_length": 32,
    "n_deepstack_layers": 0,
    "nextn_predict_layers": 0,
    "vocab_size": 128,
}
#: Blocks of a model that repeats a pattern of blocks; 2 of all others.
BLOCKS = {"gemma3": 6, "llama4": 4, "olmo2": 4, "smollm3": 4}
#: Architectures whose rotation depends on how many blocks there are.
COUNTED = ("baichuan", "exaone4")
#: Limit of the context, to save memory. It only selects lists of longrope, at 4,096 in all files.
LONGEST = 2**14
REALS = ("freq_base", "freq_scale", "ext_factor", "attn_factor", "beta_fast", "beta_slow")
POINTER = ctypes.c_void_p


class Tensor(ctypes.Structure):
    """ggml_tensor, of which a graph consists."""

    _fields_ = (
        ("type", ctypes.c_int),
        ("buffer", POINTER),
        ("ne", ctypes.c_int64 * 4),
        ("nb", ctypes.c_size_t * 4),
        ("op", ctypes.c_int),
        ("op_params", ctypes.c_int32 * 16),
        ("flags", ctypes.c_int32),
        ("src", POINTER * 10),
        ("view_src", POINTER),
        ("view_offs", ctypes.c_size_t),
        ("data", POINTER),
        ("name", ctypes.c_char * 64),
        ("extra", POINTER),
        ("padding", ctypes.c_char * 8),
    )

    def read(self, count: int) -> NDArray[np.float32]:
        """Return a copy of the first elements."""
        assert self.data
        return np.frombuffer(ctypes.string_at(self.data, 4 * count), np.float32)


class Arena(ctypes.Structure):
    """ggml_init_params."""

    _fields_ = (("size", ctypes.c_size_t), ("memory", POINTER), ("no_alloc", ctypes.c_bool))


class Reading(ctypes.Structure):
    """gguf_init_params."""

    _fields_ = (("no_alloc", ctypes.c_bool), ("tensors", POINTER))


def convert(config: dict[str, Any], folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the keys, each a value of gguf-py, and the tensors that llama.cpp's converter adds."""
    conversion, gguf = import_module("conversion"), import_module("gguf")
    config = FILLED | config
    if "text_config" in config:
        config["text_config"] = FILLED | config["text_config"]
    (folder / "config.json").write_text(json.dumps(config))
    base = conversion.ModelBase.load_hparams(folder, False)
    name = conversion.get_model_architecture(base, conversion.ModelType.TEXT)
    cls = conversion.get_model_class(name)
    model = cls(folder, gguf.LlamaFileType.ALL_F32, folder / "x.gguf", hparams=base)
    model.set_gguf_parameters()
    tensors = {name: each.numpy() for name, each in model.generate_extra_tensors()}
    return model.gguf_writer.kv_data[0], tensors


def write_small(keys: dict[str, Any], file: Path) -> None:
    """Write the keys, each a value of gguf-py, of a small model with the same rotation."""
    arch = keys["general.architecture"].value
    own = {name.removeprefix(f"{arch}."): each.value for name, each in keys.items()}
    blocks = BLOCKS.get(arch, 2)
    if arch in COUNTED:
        blocks = own["block_count"] - own.get("nextn_predict_layers", 0)
    width = own.get("attention.key_length", own["embedding_length"] // own["attention.head_count"])
    small = SMALL | {
        "attention.head_count_kv": min(own.get("attention.head_count_kv", 2), 2),
        "block_count": blocks,
        "embedding_length": 2 * width,
        "leading_dense_block_count": min(own.get("leading_dense_block_count", 0), 1),
    }
    writer = import_module("gguf").GGUFWriter(file, arch)
    for name, each in keys.items():
        value = small.get(name.removeprefix(f"{arch}."), each.value)
        if name != "general.architecture":
            of_blocks = isinstance(value, list) and not name.endswith("_sections")
            value = value[:blocks] if of_blocks else value
            writer.add_key_value(name, value, each.type, each.sub_type)
    if "vocab_size" not in own:  # normally a property of the vocabulary, which is missing
        writer.add_vocab_size(SMALL["vocab_size"])
    if "expert_count" in own and "expert_used_count" not in own:
        writer.add_expert_used_count(SMALL["expert_used_count"])
    writer.add_tokenizer_model("no_vocab")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()


class Library:
    """libllama and ggml with it."""

    def __init__(self, source: Path, libraries: Path) -> None:
        os.environ |= {"LLAMA_CPP_LIB_PATH": str(libraries), "GGML_NO_BACKTRACE": "1"}
        # The package itself imports a server's dependencies; its table of functions does not.
        package = ModuleType("llama_cpp")
        package.__path__ = [str(source / "llama_cpp")]
        sys.modules["llama_cpp"] = package
        self.llama = import_module("llama_cpp.llama_cpp")
        self.base = ctypes.CDLL(str(libraries / "libggml-base.so"))
        self.cpu = ctypes.CDLL(str(libraries / "libggml-cpu.so"))
        self.base.ggml_op_name.restype = ctypes.c_char_p
        size = ctypes.c_size_t
        for name, given in {
            "ggml_init": (Arena,),
            "ggml_new_tensor_3d": (POINTER, ctypes.c_int, *[ctypes.c_int64] * 3),
            "ggml_rope": (POINTER, POINTER, POINTER, ctypes.c_int, ctypes.c_int),
            "ggml_new_graph": (POINTER,),
            "gguf_init_from_file": (ctypes.c_char_p, Reading),
        }.items():
            getattr(self.base, name).argtypes, getattr(self.base, name).restype = given, POINTER
        self.base.ggml_build_forward_expand.argtypes = (POINTER, POINTER)
        self.base.ggml_backend_tensor_set.argtypes = (POINTER, POINTER, size, size)
        self.base.ggml_free.argtypes = self.base.gguf_free.argtypes = (POINTER,)
        self.cpu.ggml_graph_compute_with_ctx.argtypes = (POINTER, POINTER, ctypes.c_int)
        self.log, self.failures = b"", list[str]()
        # Python ignores exceptions in callbacks of a C library.
        sys.unraisablehook = lambda ignored: self.failures.append(repr(ignored.exc_value))
        self.logger = self.llama.llama_log_callback(self.keep)
        self.llama.llama_log_set(self.logger, None)
        self.llama.llama_backend_init()

    def keep(self, level: int, text: bytes, _: object) -> None:
        """Keep log messages of errors."""
        self.log += text if level == 4 else b""

    def ropes(self, file: Path, tensors: dict[str, Any], context: int) -> list[dict[str, Any]]:
        """Return the rotations of a model by its metadata, with random weights."""
        llama, random = self.llama, np.random.default_rng(0)
        self.log, self.failures = b"", []

        def fill(pointer: int, _: object) -> None:
            tensor = Tensor.from_address(pointer)
            name = tensor.name.decode()
            assert tensor.type == 0
            values = random.standard_normal(int(np.prod(tensor.ne))) / 16
            if name.startswith("rope_f"):
                values = tensors.get(name, np.ones(len(values)))
                assert len(values) == tensor.ne[0]
            data = np.ascontiguousarray(values, "f4")
            self.base.ggml_backend_tensor_set(pointer, data.ctypes.data, 0, data.nbytes)

        found: dict[str, dict[str, Any]] = {}

        def see(pointer: int, ask: bool, _: object) -> bool:
            tensor = Tensor.from_address(pointer)
            op = self.base.ggml_op_name(tensor.op)
            if ask and op in (b"ROPE", b"ROPE_BACK"):
                rope = self.rotation(tensor, op == b"ROPE_BACK")
                rope = found.setdefault(json.dumps(rope), rope | {"names": []})
                rope["names"].append(tensor.name.decode())
            return False

        metadata = self.base.gguf_init_from_file(str(file).encode(), Reading(True, None))
        set_data = llama.llama_model_set_tensor_data_t(fill)
        model = llama.llama_model_init_from_user(
            metadata, set_data, None, llama.llama_model_default_params()
        )
        assert model, self.log.decode()
        params = llama.llama_context_default_params()
        params.n_ctx, params.n_batch, params.n_ubatch, params.n_threads = context, 8, 8, 1
        params.cb_eval = llama.ggml_backend_sched_eval_callback(see)
        running = llama.llama_init_from_model(model, params)
        assert running, self.log.decode()
        found.clear()  # of graphs that were only measured
        tokens = (llama.llama_token * 4)(1, 2, 3, 4)
        status = llama.llama_decode(running, llama.llama_batch_get_one(tokens, 4))
        llama.llama_free(running)
        llama.llama_model_free(model)
        self.base.gguf_free(metadata)
        assert status == 0, self.log.decode()
        assert not self.failures, self.failures
        return list(found.values())

    def rotation(self, tensor: Tensor, back: bool) -> dict[str, Any]:
        """Return a node's parameters, and the angle and factor of its pairs on each axis."""
        words = np.array(tensor.op_params, np.int32)
        numbers = words.view(np.float32).tolist()
        factors = Tensor.from_address(tensor.src[2]) if tensor.src[2] else None
        multi = bool(words[2] & 8)
        axes = [self.axis(tensor, factors, axis, multi) for axis in range(4 if multi else 1)]
        return {
            "back": int(back),
            "ne0": tensor.ne[0],
            "n_dims": int(words[1]),
            "mode": int(words[2]),
            "n_ctx_orig": int(words[4]),
            **dict(zip(REALS, numbers[5:11], strict=True)),
            "sections": words[11:15].tolist(),
            "offs": int(words[15]),
            "ff": factors.ne[0] if factors else 0,
            "axes": axes,
        }

    def axis(self, node: Tensor, factors: Tensor | None, axis: int, multi: bool) -> list[Any]:
        """Return [i, j, angle, factor] of the pairs that turn with an axis, by basis vectors."""
        n = node.ne[0]
        arena = self.base.ggml_init(Arena(2**24 + 16 * n * n, None, False))

        def tensor(values: NDArray[Any], shape: tuple[int, int, int]) -> int:
            kind = 26 if values.dtype == np.int32 else 0
            made: int = self.base.ggml_new_tensor_3d(arena, kind, *shape)
            ctypes.memmove(Tensor.from_address(made).data, values.ctypes.data, values.nbytes)
            return made

        positions = np.zeros((4 if multi else 1, n), np.int32)
        positions[axis] = 1
        vectors = tensor(np.eye(n, dtype=np.float32), (n, 1, n))
        where = tensor(positions, (positions.size, 1, 1))
        pointer = self.base.ggml_rope(arena, vectors, where, *node.op_params[1:3])
        rope = Tensor.from_address(pointer)
        rope.op, rope.op_params = node.op, node.op_params
        if factors:
            count = factors.ne[0]
            rope.src[2] = tensor(factors.read(count), (count, 1, 1))
        graph = self.base.ggml_new_graph(arena)
        self.base.ggml_build_forward_expand(graph, pointer)
        status = self.cpu.ggml_graph_compute_with_ctx(arena, graph, 1)
        assert status == 0
        turned = rope.read(n * n).reshape(n, n).astype(float)  # row i is the vector e_i, rotated
        self.base.ggml_free(arena)
        pairs: list[Any] = []
        for i in range(n):
            others = np.flatnonzero(turned[i]).tolist()
            for j in others:
                x, y = turned[i, i], turned[i, j]
                pairs += [[i, j, np.arctan2(y, x), np.hypot(x, y)]] if j > i else []
            if others == [i] and turned[i, i] != 1:
                pairs.append([i, -1, 0.0, turned[i, i]])
        return pairs


def main() -> None:
    source, libraries = Path(sys.argv[1]), Path(sys.argv[2])
    sys.path[:0] = [str(source / "vendor/llama.cpp"), str(source / "vendor/llama.cpp/gguf-py")]
    library = Library(source, libraries)
    for line in sys.stdin:
        asked = json.loads(line)
        answer: dict[str, Any] = {}
        with tempfile.TemporaryDirectory() as folder:
            try:
                keys, tensors = convert(asked["config"], Path(folder))
                answer["kv"] = {name: each.value for name, each in keys.items()}
                answer["tensors"] = {name: each.tolist() for name, each in tensors.items()}
                arch = answer["kv"]["general.architecture"]
                file = Path(folder) / "small.gguf"
                write_small(keys, file)
                context = answer["kv"].get(f"{arch}.context_length", LONGEST)
                context = min(asked["sequence_length"] or context, LONGEST)
                answer["ropes"] = library.ropes(file, tensors, context)
            except Exception as error:  # of any library: the answer is that
                answer["error"] = f"{type(error).__name__}: {error}"
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
