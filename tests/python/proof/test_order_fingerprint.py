"""fingerprint of sums: every order of apscope is named, others are described, with their bits."""

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import apscope
from apscope import fingerprint
from apscope.cli import main
from tests.reference.matrix_units import UNITS

ORDERS = ["sequential", "pairwise", "chunked:3", "kahan", "exact"]
N = 11


def accumulate(order, name):
    return {} if order == "exact" else {"accumulate": name}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    ("name", "rounding"),
    [
        ("fp32", "ties_to_even"),
        ("fp16", "toward_positive"),
        ("bf16", "to_odd"),
        ("e4m3", "ties_to_even"),
        ("e5m2", "toward_zero"),
    ],
)
def test_every_order_of_sums_is_named(order, name, rounding):
    found = fingerprint(
        lambda x: apscope.sum(x, name, order=order, rounding=rounding),
        kind="sum",
        inputs=name,
        n=N,
    )
    assert (found.name, found.differing) == (order, 0), found
    assert found.arguments["format"] == name and found.arguments["rounding"] == rounding
    x = np.random.default_rng(1).standard_normal(N).astype(np.float32)
    assert apscope.sum(x, **found.arguments) == apscope.sum(x, name, order=order, rounding=rounding)


@pytest.mark.parametrize("order", ORDERS)
def test_accumulators_are_named(order):
    found = fingerprint(
        lambda x: apscope.sum(x, "bf16", order=order, **accumulate(order, "fp32")), kind="sum", n=N
    )
    assert found.name == order and found.result == "8 bits (bf16)"
    assert order == "exact" or found.accumulator == "24 bits (fp32)"
    found = fingerprint(
        lambda x: apscope.sum(
            x, "e4m3fn", order=order, overflow="saturate", **accumulate(order, "fp16")
        ),
        kind="sum",
        n=N,
    )
    assert found.name == order and found.arguments["overflow"] == "saturate"


@pytest.mark.parametrize("order", ORDERS)
def test_every_order_of_products_is_named(order):
    product = {"product": "fp32"} if order == "pairwise" else {}
    for kind, function, name, inputs in (
        ("dot", apscope.dot, "fp32", "fp16"),
        ("dot", apscope.dot, "fp16", "fp16"),
        ("matmul", apscope.matmul, "bf16", "bf16"),
    ):
        wide = {} if name == "fp32" else accumulate(order, "fp32")
        found = fingerprint(
            lambda a, b, f=function, n=name, w=wide: f(a, b, n, order=order, **product, **w),
            kind=kind,
            inputs=inputs,
            n=N,
            shape=(2, 3),
        )
        assert (found.name, found.differing) == (order, 0), found
        assert found.arguments["format"] == name


def test_rounded_products_are_named():
    for order in ("sequential", "chunked:3"):
        found = fingerprint(
            lambda a, b, o=order: apscope.dot(a, b, "e4m3fn", order=o, product="e4m3fn"),
            kind="dot",
            inputs="e4m3fn",
            n=N,
        )
        assert found.name == order and found.arguments["product"] == "e4m3fn"


TOPOLOGIES = [
    name.replace(":G", f":{g}")
    for name in apscope._core.topologies()
    if apscope._core.is_order(name.replace(":G", ":2"))
    for g in ([2, 3] if ":G" in name else [0])
]


@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize(
    ("inputs", "name", "more"),
    [
        ("fp32", "fp32", {}),
        ("fp32", "bf16", {"hop_rounding": "toward_zero"}),
        ("e5m2", "e5m2", {}),
    ],
)
def test_every_topology_is_named(topology, inputs, name, more):
    found = fingerprint(
        lambda x: apscope.allreduce(x, name, topology=topology, **more),
        kind="allreduce",
        inputs=inputs,
        workers=5,
        n=10,
    )
    # Several topologies are one function in some formats: these are listed beside the first.
    named = [found.arguments, *found.also]
    assert topology in [one["topology"] for one in named] and found.differing == 0, found
    x = np.random.default_rng(2).standard_normal((5, 10)).astype(np.float32)
    x = apscope.quantize(x, inputs)
    ours = apscope.allreduce(x, name, topology=topology, **more)
    for arguments in named:
        assert np.array_equal(apscope.allreduce(x, **arguments), ours)


def test_the_inputs_cast_and_the_accumulator_of_an_allreduce_are_named():
    for topology in ("ring", "tree", "sequential+kahan"):
        found = fingerprint(
            lambda x, t=topology: apscope.allreduce(x, "e4m3fn", topology=t, accumulate="bf16"),
            kind="allreduce",
            workers=5,
            n=10,
        )
        assert found.name == topology
        assert found.arguments["format"] == "e4m3fn" and found.arguments["accumulate"] == "bf16"
        assert found.result.startswith("8 bits (bf16)")


def test_topologies_with_other_trees_have_other_names():
    names_of = {
        t: fingerprint(
            lambda x, t=t: apscope.allreduce(x, "fp32", topology=t),
            kind="allreduce",
            workers=7,
            n=14,
        )
        for t in ("ring", "tree", "butterfly", "hierarchical:3", "pat", "nccl:tree")
    }
    assert all(found.name == t for t, found in names_of.items())
    assert len({found.trees for found in names_of.values()}) == 6
    ring = names_of["ring"]
    assert ring.trees[0] == (0, 2, ((((((1, 2), 3), 4), 5), 6), 0))
    assert "at 0..1      seq(1..6, 0)" in str(ring)


def test_an_unknown_order_is_described():
    found = fingerprint(np.sum, kind="sum", n=64)  # NumPy's: eight sums, added in pairs
    assert found.name is None and found.arguments == {}
    assert found.order == "pairwise(seq(0..56 by 8) .. seq(7..63 by 8))"
    assert (found.accumulator, found.rounding) == ("24 bits (fp32)", "ties_to_even")
    assert found.differing == 0 and found.block is None
    found = fingerprint(np.sum, kind="sum", n=160)  # and blocks of at most 128
    halves = "seq(0..72 by 8) .. seq(7..79 by 8), seq(80..152 by 8) .. seq(87..159 by 8)"
    assert found.order == f"pairwise({halves})"
    found = fingerprint(lambda x: np.sum(x, dtype=np.float64), kind="sum", n=16)
    assert found.accumulator == "53 bits (fp64)" and found.name is None
    backwards = fingerprint(lambda x: apscope.sum(x[::-1], "fp16"), kind="sum", n=N)
    assert (backwards.name, backwards.differing) == (None, 0)
    assert backwards.order == "seq(10..0 by -1)"


def test_a_name_needs_every_bit():
    def from_zero(x):
        total = np.float32(0)
        for term in x:
            total += term
        return total

    found = fingerprint(from_zero, kind="sum", n=8)
    assert (found.name, found.closest) == (None, "sequential")  # -0 alone becomes +0
    assert found.differing == 0  # of the description


def test_torch_on_this_processor_is_described():
    torch = pytest.importorskip("torch")
    found = fingerprint(lambda a, b: a @ b, kind="matmul", n=8)
    theirs = fingerprint(lambda a, b: torch.from_numpy(a) @ torch.from_numpy(b), kind="matmul", n=8)
    for one in (found, theirs):  # orders and fused additions differ with the processor
        assert sorted(leaves(one.tree)) == list(range(8))
        assert one.result.startswith("24 bits") and one.calls > 100


def gloo(rank, folder):
    """The first process probes; the others add what it broadcasts, until it sends NaN alone."""
    import torch
    from torch import distributed

    def reduce(x):
        rows = torch.from_numpy(x)
        distributed.broadcast(rows, 0)
        row = rows[rank].clone()
        distributed.all_reduce(row)
        return row

    if rank > 0:
        rows = np.zeros((4, 8), np.float32)
        while not np.isnan(rows).all():
            reduce(rows)
        return
    found = fingerprint(reduce, kind="allreduce", workers=4, n=8)
    reduce(np.full((4, 8), np.nan, np.float32))
    (Path(folder) / "found").write_text(json.dumps(dataclasses.asdict(found)))


def test_gloo_passes_sums_round_a_ring_from_higher_ranks_to_lower_ones(tmp_path):
    torch = pytest.importorskip("torch")
    if not torch.distributed.is_available():
        pytest.skip("this PyTorch has no torch.distributed")
    program = """
import sys
from tests.python.proof.test_order_fingerprint import gloo
from tests.python.train.jobs import run_ranks
run_ranks(gloo, 4, sys.argv[1])
"""
    root = Path(__file__).parents[3]
    subprocess.run([sys.executable, "-c", program, tmp_path], cwd=root, check=True)
    found = json.loads((tmp_path / "found").read_text())
    assert found["trees"] == [  # chunk k starts at rank k - 1 and goes down; `ring` goes up
        [0, 2, [[[2, 3], 1], 0]],
        [2, 4, [[[0, 3], 2], 1]],
        [4, 6, [[[0, 1], 3], 2]],
        [6, 8, [[[1, 2], 0], 3]],
    ]
    assert (found["name"], found["differing"]) == (None, 0)
    assert found["accumulator"] == "24 bits (fp32)"


def leaves(tree):
    return [tree] if isinstance(tree, int) else [i for part in tree for i in leaves(part)]


def matmul(name, form):
    """The reference of a unit, as a function of matrices."""

    def product(a, b, c=0.0):
        rows, columns = np.broadcast_arrays(a[:, None], b.T[None])
        return UNITS[name].dot(rows, columns, np.broadcast_to(c, rows.shape[:2]), form)

    return product


@pytest.mark.parametrize("addend", [False, True])
@pytest.mark.parametrize(
    ("unit", "inputs", "k", "fraction", "order"),
    [
        ("h100", "fp16", 16, 25, "chain(0..15C | 16..31)"),
        ("h100:fp8", "e4m3fn", 32, 13, "fused(0..31C)"),
        ("a100", "bf16", 8, 24, "chain(0..7C | 8..15 | 16..23 | 24..31)"),
        ("v100", "fp16", 4, 23, "chain(0..3C | 4..7 | 8..11 | .. | 28..31)"),
    ],
)
def test_matrix_units_are_described(unit, inputs, k, fraction, order, addend):
    found = fingerprint(
        matmul(unit, inputs), kind="matmul", inputs=inputs, n=32, shape=(1, 1), addend=addend
    )
    assert (found.block, found.fraction_bits) == (k, fraction), found
    assert found.order == order.replace("C", ", C" if addend else "")
    assert found.fraction_rounding == "toward_zero"
    assert (found.name, found.differing) == (f"unit:{unit}", 0)
    first = "one of the terms" if k == 32 else "a term of the first addition"
    assert found.addend == (first if addend else "")
    bits = "14 bits" if unit == "h100:fp8" else "24 bits"
    result, accumulator = (b.removesuffix(" (fp32)") for b in (found.result, found.accumulator))
    assert result == bits and accumulator == ("" if k == 32 else bits)


def test_a_matrix_unit_that_adds_c_last_is_described():
    found = fingerprint(
        matmul("h100:mma_fp8", "e4m3fn"),
        kind="matmul",
        inputs="e4m3fn",
        n=32,
        shape=(1, 1),
        addend=True,
    )
    near = sorted(k for k in range(32) if k % 4 < 2)
    far = [k for k in range(32) if k % 4 > 1]
    assert found.tree == ((tuple(near), *far), 32)
    assert (found.block, found.fraction_bits, found.addend) == (16, 25, "last")
    assert found.rounding == "toward_zero" and found.result_rounding == "ties_to_even"


def test_chains_that_are_added_in_fp32_are_described():
    def promoted(a, b):
        halves = (UNITS["v100"].dot(a[k : k + 8], b[k : k + 8]) for k in (0, 8, 16))
        return sum(halves, np.float32(0))

    found = fingerprint(promoted, kind="dot", inputs="fp16", n=24)
    assert (found.block, found.fraction_bits) == (4, 23), found
    assert found.order == "seq(chain(0..3 | 4..7) .. chain(16..19 | 20..23))"
    assert found.rounding == found.result_rounding == "ties_to_even"


def test_presets_of_matrix_units_are_named():
    known = {unit["name"]: unit for unit in apscope.units()}
    for name in ("v100:fp16", "h100", "mi250x", "mi300x"):
        unit = known[name]
        found = fingerprint(
            lambda a, b, c, u=unit: apscope.dot(a, b, u["result"], order=f"unit:{u['name']}", c=c),
            kind="dot",
            inputs="fp16",
            n=32,
            addend=True,
        )
        assert (found.name, found.differing) == (f"unit:{name}", 0), found
        if unit["fraction"]:
            assert (found.block, found.fraction_bits) == (unit["k"], unit["fraction"])


def test_what_the_inputs_cannot_show_is_said():
    found = fingerprint(
        lambda x: apscope.sum(x, "fp32"), kind="sum", inputs="e4m3", n=N
    )  # the sum of FP8 numbers is exact in fp32
    assert found.trees == () and found.ratio == 16
    assert found.order == "not seen: no term is lost beside one 2^16 times as large"
    assert found.name == "exact"
    assert {"sequential", "pairwise", "kahan"} <= {one["order"] for one in found.also}


@pytest.mark.parametrize("n", [1, 2, 3])
def test_few_terms(n):
    found = fingerprint(lambda x: apscope.sum(x, "fp16"), kind="sum", inputs="fp16", n=n)
    assert "sequential" in orders_of(found) and found.differing == 0
    one = fingerprint(lambda x: apscope.allreduce(x, "bf16"), kind="allreduce", workers=n, n=5)
    assert "ring" in orders_of(one)


def orders_of(found):
    return [next(iter(arguments.values())) for arguments in (found.arguments, *found.also)]


@pytest.mark.parametrize(
    ("function", "options", "error", "words"),
    [
        (3, {}, TypeError, "int is not a callable"),
        (lambda x: x, {}, ValueError, r"array of shape \(8,\).*a sum has shape \(\)"),
        (lambda x: 1 / 0, {}, ValueError, "raised ZeroDivisionError"),
        (lambda x: "a", {}, ValueError, "must return real numbers"),
        (lambda x: x.max(), {}, ValueError, "is not a sum of the terms"),
        (lambda x: np.nan, {}, ValueError, "is not a sum of the terms"),
        (lambda x: x.sum() if (x != 0).sum() < 3 else np.nan, {}, ValueError, "returned NaN"),
        (np.sum, {"kind": "product"}, ValueError, "kind='product' is not one of cast, sum"),
        (np.sum, {"n": 0}, ValueError, "n"),
        (np.sum, {"codes": "e4m3"}, ValueError, "codes= is for kind='cast'"),
        (np.sum, {"kind": "cast"}, ValueError, "are for a sum; give kind="),
        (np.sum, {"addend": True}, ValueError, "addend=True is for dot and matmul"),
        (np.sum, {"inputs": "e8m0fnu"}, ValueError, "inputs=e8m0fnu cannot be probed"),
        (np.matmul, {"kind": "matmul", "shape": 3}, ValueError, r"shape=3 is not \(rows"),
    ],
)
def test_refusals_are_one_sentence(function, options, error, words):
    with pytest.raises(error, match=words) as caught:
        fingerprint(function, **{"kind": "sum", "n": 8, **options})
    assert "\n" not in str(caught.value)


def test_a_sum_that_changes_from_call_to_call_is_refused():
    rng = np.random.default_rng(4)
    seeds = lambda x: apscope.sum(x, "e4m3", rounding="stochastic", seed=int(rng.integers(1 << 30)))
    with pytest.raises(ValueError, match="not deterministic"):
        fingerprint(seeds, kind="sum", inputs="e4m3", n=8)


def test_the_command_line(tmp_path, capsys, monkeypatch):
    (tmp_path / "order_sums.py").write_text(
        "import apscope\n"
        "def half(x):\n    return apscope.sum(x, 'fp16', order='pairwise')\n"
        "def ring(x):\n    return apscope.allreduce(x, 'bf16')\n"
    )
    monkeypatch.chdir(tmp_path)
    words = ["--kind", "sum", "--inputs", "fp16", "--terms", "8"]
    assert main(["fingerprint", "order_sums:half", *words]) == 0
    assert "name         pairwise\n" in capsys.readouterr().out
    words = ["--kind", "allreduce", "--inputs", "bf16", "--terms", "6", "--workers", "3", "--json"]
    assert main(["fingerprint", "order_sums:ring", *words]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["name"] == "ring" and found["trees"][0] == [0, 2, [[1, 2], 0]]
    assert main(["fingerprint", "order_sums:half", "--terms", "8"]) == 2
    assert main(["fingerprint", "order_sums:half", "--kind", "sum", "--addend"]) == 2
    assert capsys.readouterr().err.count("\n") == 2
