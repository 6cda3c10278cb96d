"""``python -m tests.fuzz.write_corpus [FOLDER]``: the first inputs of the fuzzer, one small file
each; what it finds is laid beside them."""

import io
import itertools
import json
import struct
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
from safetensors.numpy import save

from apscope import schemes

from . import fuzz_packs
from .fuzz_converters import NAMES, NEXT, OPTIONS, choice
from .fuzz_results import PARTS, QUESTIONS, whole

HERE = Path(__file__).parent


def safetensors():
    rng = np.random.default_rng(1)
    w = rng.standard_normal((2, 3)).astype(np.float32)
    for dtype in (
        "float32",
        "float16",
        "float64",
        ml_dtypes.bfloat16,
        ml_dtypes.float8_e4m3fn,
        "int64",
        "bool",
    ):
        yield np.dtype(dtype).name, save({"w": w.astype(dtype), "b": np.zeros(3, dtype)})
    yield "empty", save({})
    yield (
        "scalar_and_nothing",
        save({"s": np.array(1.5, np.float32), "n": np.zeros((0, 4), np.float32)}),
    )
    yield "metadata", save({"w": w}, {"format": "pt"})  # one entry: more stand in no certain order
    yield (
        "special",
        save({"w": np.array([np.nan, np.inf, -np.inf, -0.0, 1e-45, 3.4e38], np.float32)}),
    )
    header = b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}}'
    yield "overlap", struct.pack("<Q", len(header)) + header + bytes(12)
    header = b'{"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}}'
    yield "overflowing_shape", struct.pack("<Q", len(header)) + header
    header = b'{"line\\nbreak":{"dtype":"F32\\u001b","shape":[],"data_offsets":[0,4],"other\\r":0}}'
    yield "control_characters", struct.pack("<Q", len(header)) + header
    yield "long_header", struct.pack("<Q", 2**63) + b"{}"


def manifest():
    data = HERE.parents[1] / "notebooks" / "data"
    for name in ("digits", "digits_w64", "characters"):
        whole = json.loads((data / name / "manifest.json").read_text())
        whole["steps"] = whole["steps"][:2]
        for step in whole["steps"]:
            step["files"] = dict(list(step["files"].items())[: whole["workers"]])
        yield name, json.dumps(whole).encode()
        whole["tensors"] = whole["tensors"][:1]
        yield f"{name}_small", json.dumps(whole, indent=1).encode()
    yield "deep", b"[" * 400
    for name, text in (
        ("field", {"line\nbreak": 0}),
        ("kind", {"schema_version": 1, "stage": "\x1b[1m"}),
        ("key_twice", None),
    ):
        yield (
            f"control_characters_{name}",
            b'{"a\\n":0,"a\\n":1}' if text is None else json.dumps(text).encode(),
        )
    yield "twice", b'{"name": "a", "name": "b"}'
    yield "no_object", b"3"


SPECS = """e4m3 e5m2fnuz bf16 binary8p3se e8m0fnu float:e5m10 fixed:4:3 mxfp8_e4m3 mxint8 nvfp4 bfp:8:16 blocks:e2m1,scale=e8m0fnu,block=16
blocks:int4,rule=ratio,tensor ring tree sequential hierarchical:4+kahan exact gather"""


def specs():
    for name in SPECS.split():
        yield "".join(c if c.isalnum() else "_" for c in name), name.encode()
    for i, scheme in enumerate(schemes.all_schemes()):
        yield f"scheme_{i:02}_{scheme.name}", scheme.spec.encode()
    yield "hybrid", b"hybrid(first=fp32;role:norm=fp16;else=aps:e4m3)"


#: One name of every family: the first inputs of `formats` and `plans`.
FORMATS = (
    "e4m3 e5m2fnuz bf16 fp16 fp32 e11m52 e8m0fnu e2m1fn float8_e4m3fn binary8p3se "
    "binary6p1uf cfloat8_143b7 qpytorch_e5m2 e4m3b20nosub e5m0nannz0 e3m3zero1nan2noinf"
)


def formats():
    rng = np.random.default_rng(4)
    for name in [*FORMATS.split(), *(n for n in SPECS.split() if ":" in n or "mx" in n), ""]:
        yield (
            "".join(c if c.isalnum() else "_" for c in name) or "fields",
            name.encode() + b"\n" + rng.bytes(60),
        )


def plans():
    """As plans.cpp reads them: a name, the five bytes of a projection, its random bits, a seed,
    numbers."""
    rng = np.random.default_rng(5)
    values = np.concatenate(
        [rng.standard_normal(20), [0, -0.0, np.nan, np.inf, 1e-45, 448, 57344]]
    ).astype(np.float32)
    for i, name in enumerate(FORMATS.split()):
        for rounding in (i % 13, (i + 6) % 13):
            projection = bytes(
                [rounding, i % 2, 0, 0, rounding >= 8, *([8] if rounding >= 8 else []), i, 0]
            )
            yield f"{name}_{rounding:02}", name.encode() + b"\n" + projection + values.tobytes()
    yield "fields", b"\n" + bytes([5, 4, 0, 1, 0]) + bytes([0, 0, 0, 0, 0, 7, 0]) + values.tobytes()


def results():
    """As fuzz_results.py reads them: of every question what it says of the whole folder, and a few
    edits."""
    for question in range(len(QUESTIONS)):
        yield f"whole_{question:02}", bytes([PARTS.index("edits"), question])
    for i, edit in enumerate(
        [
            (0, 0, 9, 1),
            (0, 0, 20, 2),
            (2, 3, 1, 15),
            (8, 4, 1, 14),
            (14, 30, 0, 0),
            (20, 0, 5, 1),
            (26, 0, 3, 0),
            (4, 2, 0, 1),
            (6, 2, 2, 16),
        ]
    ):
        yield f"edit_{i}", bytes([PARTS.index("edits"), i, *edit])
    yield "provenance", bytes([0, 0]) + whole()["provenance.json"]
    for i, text in enumerate((b"null", b"[1]", b"{}", b"[" * 5000, b'{"traces": [{"name": "x"}]}')):
        yield f"provenance_{i}", bytes([0, 0]) + text
    yield "noise", bytes([PARTS.index("noise.parquet"), 4]) + whole()["noise.parquet"]


def packs():
    """As fuzz_packs.py reads them: what is asked, then the text of a manifest or edits of the whole
    one."""
    whole_manifest = fuzz_packs.whole()["manifest.json"]
    for question in range(len(fuzz_packs.QUESTIONS)):
        yield f"whole_{question}", bytes([question, 1])
    yield "text", bytes([0, 0]) + whole_manifest
    for i in range(0, 200, 20):
        yield f"edit_{i}", bytes([i % 3, 1, 0, i, i % 37])
    head = b'{"kind": "apscope conformance pack", "version": 1'
    for i, text in enumerate((b"null", b"{}", head + b"}", head + b', "formats": {"a\\n": 3}}')):
        yield f"manifest_{i}", bytes([2, 0]) + text


def scheme_inputs():
    values = np.random.default_rng(2).standard_normal((3, 21)).astype(np.float32)
    for i, scheme in enumerate(schemes.all_schemes()):
        yield f"{i:02}_{scheme.name}", scheme.spec.encode() + b"\n" + values.tobytes()
    values[0, 3], values[1, 4], values[2] = np.nan, np.inf, 0
    for spec in ("aps:e4m3", "sign", "qsgd", "error_feedback(top_k)", "fft_sparse", "zipml"):
        yield (
            f"special_{spec.split(':')[0].split('(')[0]}",
            spec.encode() + b"\n" + values.tobytes(),
        )
    yield "nothing", b"aps:e5m2\n"


def converters():
    """As fuzz_converters.py reads them: a byte that chooses names and options, then the files."""
    rng = np.random.default_rng(3)

    def numpy_file(save_as, *arrays, **named):
        stream = io.BytesIO()
        save_as(stream, *arrays, **named)
        return stream.getvalue()

    def npz(arrays):
        return numpy_file(np.savez_compressed, **arrays)

    def npy(arrays):
        return numpy_file(np.save, arrays["w"])

    def tensors(option, k):
        """Possible values of the options, another dump for every `k`; leading axes of 2 if they
        count."""
        lead = (
            {0: (2, 2), 2: (2,), 3: (2,), 4: (2,)}.get(names, ()) if OPTIONS[option] is None else ()
        )
        w = rng.standard_normal((*lead, 1, 3)) + k
        found = {"w": w.astype(np.float32), "b": np.full((*lead, 3), k + 1, np.float16)}
        if "raw_dtype" in (OPTIONS[option] or {}):
            found = {
                name: values.astype(ml_dtypes.bfloat16).view(np.uint16)
                for name, values in found.items()
            }
        if "round_to_fp32" in (OPTIONS[option] or {}):
            found["w"] = w
        if "sample" in (OPTIONS[option] or {}):
            # A block and a bit; arrays that are not gradients.
            found |= {"w": np.full((1, 4100), k + 1, np.float16), "step": np.int64([k])}
        return found

    for option, names in itertools.product(range(len(OPTIONS)), range(len(NAMES))):
        files = NAMES[names][0]
        dumps = [tensors(option, k) for k in range(len(files))]
        for kind, write in {"npz": npz, "safetensors": save, "npy": npy}.items():
            contents = [write(dump) for dump in dumps]
            if files[-1].endswith(".index.json"):  # of parts that are safetensors files
                if kind != "safetensors":
                    continue
                parts = [{name: dumps[0][name]} for name in ("w", "b")]
                weight_map = dict(zip(("w", "b"), files))
                contents = [
                    *map(save, parts),
                    json.dumps({"metadata": {"total_size": 24}, "weight_map": weight_map}).encode(),
                ]
            yield (
                f"{choice(names, option):02}_{kind}",
                bytes([choice(names, option)]) + NEXT.join(contents),
            )
    w = rng.standard_normal((2, 3)).astype(np.float32)
    by_name = {f"step_{s}/worker_{k}/fc.weight": w * (s + k) for s in range(2) for k in range(2)}
    more = [
        npz(by_name),
        npz({"a": w.astype(">f4"), "b": w[0]}),
        npy({"w": np.asfortranarray(w)}),
        npy({"w": np.zeros((0, 2), np.float32)}),
    ]
    for i, content in enumerate(
        [*more, save({"layers.9.w": w, "layers.11.w": w * 2, "module.b": w[0]})]
    ):
        yield f"more_{i}", bytes([choice(0, 5)]) + content  # one worker, no axis of steps


def main(folder: Path) -> None:
    kinds = {
        "safetensors": safetensors, "manifest": manifest, "formats": formats, "plans": plans,
        "specs": specs, "schemes": scheme_inputs,
        "converters": converters, "results": results, "packs": packs,
    }  # fmt: skip
    for name, inputs in kinds.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        for file, content in inputs():
            (folder / name / file).write_bytes(content)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "corpus")
