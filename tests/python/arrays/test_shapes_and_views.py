"""Empty arrays, one element, strided and unaligned views, through every public function that takes
arrays."""

import dataclasses

import numpy as np
import pytest

import apscope
from apscope.record import TraceWriter

RNG = np.random.default_rng(5)


def floats(shape, dtype=np.float32):
    return RNG.standard_normal(shape).astype(dtype)


def bytes_of(shape, dtype=np.uint8):
    return RNG.integers(0, 4, shape).astype(dtype)


def unaligned(a):
    buffer = np.zeros(a.nbytes + 1, np.uint8)
    view = buffer[1:].view(a.dtype).reshape(a.shape)
    view[...] = a
    assert not view.flags.aligned or a.dtype.itemsize == 1
    return view


def strided(a):
    wide = np.repeat(np.repeat(a, 2, axis=-1), 3, axis=0)
    return wide[::3, ..., ::2] if a.ndim > 1 else np.repeat(a, 2)[::2]


def reversed_strides(a):
    return np.flip(np.flip(a).copy())


def read_only(a):
    a = a.copy()
    a.flags.writeable = False
    return a


class Subclass(np.ndarray):
    """An array of another class, as pandas and others have them."""


VIEWS = {
    "strided": strided,
    "reversed": reversed_strides,
    "unaligned": unaligned,
    "Fortran order": np.asfortranarray,
    "other byte order": lambda a: a.astype(a.dtype.newbyteorder()),
    "read-only": read_only,
    "of a subclass": lambda a: a.view(Subclass),
}

# name: what makes its arrays from a shape and a dtype, and the call
FORMAT = "e4m3"
CALLS = {
    "quantize": ([floats], lambda x: apscope.quantize(x, FORMAT)),
    "quantize stochastic": (
        [floats],
        lambda x: apscope.quantize(x, FORMAT, rounding="stochastic", random_bits=16, threads=2),
    ),
    "quantize to fp64 numbers": ([floats], lambda x: apscope.quantize(x, "e11m4")),
    "encode": ([floats], lambda x: apscope.encode(x, FORMAT)),
    "decode": ([bytes_of], lambda c: apscope.decode(c, FORMAT)),
    "add": ([floats, floats], lambda a, b: apscope.add(a, b, FORMAT)),
    "subtract": ([floats, floats], lambda a, b: apscope.subtract(a, b, FORMAT)),
    "multiply": ([floats, floats], lambda a, b: apscope.multiply(a, b, FORMAT)),
    "divide": ([floats, floats], lambda a, b: apscope.divide(a, b, FORMAT)),
    "sqrt": ([floats], lambda a: apscope.sqrt(a, FORMAT)),
    "fma": ([floats, floats, floats], lambda a, b, c: apscope.fma(a, b, c, FORMAT)),
    "sum": ([floats], lambda x: apscope.sum(x, FORMAT)),
    "sum along": ([floats], lambda x: apscope.sum(x, FORMAT, axis=-1, order="pairwise")),
    "dot": ([floats, floats], lambda a, b: apscope.dot(a, b, FORMAT)),
    "allreduce": ([floats], lambda x: apscope.allreduce(x, FORMAT, topology="ring")),
    "quantize_blocks": ([floats], lambda x: apscope.quantize_blocks(x, "mxfp8_e4m3")),
    "encode_blocks": ([floats], lambda x: apscope.encode_blocks(x, "mxfp4")),
    "pack": ([bytes_of], lambda c: apscope.pack(c, 3)),
    "unpack": ([bytes_of], lambda b: apscope.unpack(b, 2, 4 * b.shape[-1])),
    "optimal_levels": ([floats], lambda x: apscope.studies.levels.optimal_levels(x, 4)),
    "layer_scale": (
        [floats, floats],
        lambda g, w: apscope.studies.activation_scales.layer_scale(
            g, w.swapaxes(0, 1 - w.ndim), element_wise=True
        ),
    ),
    "underflow_curve": (
        [floats],
        lambda x: apscope.studies.weight_updates.underflow_curve(x).to_numpy(),
    ),
    "weight_residual": (
        [floats, floats],
        lambda w, u: apscope.studies.weight_updates.weight_residual(w, u[None]),
    ),
    "exchange": ([floats], lambda x: apscope.exchange("aps:e4m3", x)),
    "exchange of a whole tensor": ([floats], lambda x: apscope.exchange("error_feedback(sign)", x)),
}
SINGLE_ONLY = {"allreduce", "exchange", "exchange of a whole tensor", "optimal_levels"}


def leaves(result):
    """The arrays in a result, whatever holds them."""
    if dataclasses.is_dataclass(result):
        result = [getattr(result, f.name) for f in dataclasses.fields(result)]
    elif hasattr(result, "__dict__") and not isinstance(result, np.ndarray):
        result = list(vars(result).values())
    if isinstance(result, dict):
        result = list(result.values())
    if isinstance(result, (list, tuple)):
        return [leaf for part in result for leaf in leaves(part)]
    return [np.asarray(result)] if isinstance(result, (np.ndarray, np.generic, float, int)) else []


def same(one, other):
    assert type(one) is type(other)
    one, other = leaves(one), leaves(other)
    assert len(one) == len(other) > 0
    for a, b in zip(one, other):
        assert a.shape == b.shape and a.dtype == b.dtype
        assert a.tobytes() == b.tobytes() or np.array_equal(a, b, equal_nan=True)


def arrays(name, shape, dtype):
    made = []
    for make in CALLS[name][0]:
        made.append(make(shape, dtype) if make is floats else make(shape))
    return made


@pytest.mark.parametrize("view", list(VIEWS))
@pytest.mark.parametrize(
    "name, dtype",
    [
        (n, t)
        for n in CALLS
        for t in (np.float32, np.float64)
        if t is np.float32 or n not in SINGLE_ONLY
    ],
)
def test_views_give_what_contiguous_arrays_give(name, dtype, view):
    for shape in ((3, 7), (2, 3, 40), (2, 5000)):
        given = arrays(name, shape, dtype)
        same(CALLS[name][1](*(VIEWS[view](a) for a in given)), CALLS[name][1](*given))


@pytest.mark.parametrize("name", sorted(SINGLE_ONLY))
def test_what_takes_float32_refuses_float64(name):
    with pytest.raises(TypeError, match="has dtype float64; .* takes float32"):
        CALLS[name][1](floats((2, 3), np.float64))


@pytest.mark.parametrize("name", list(CALLS))
def test_one_element_gives_what_it_gives_among_others(name):
    given = arrays(name, (1, 1), np.float32)
    same(CALLS[name][1](*given), CALLS[name][1](*(strided(a) for a in given)))


@pytest.mark.parametrize(
    "name", ["quantize", "encode", "decode", "add", "subtract", "multiply", "divide", "sqrt", "fma"]
)
def test_shapes_of_one_element_and_of_none_are_kept(name):
    for shape in ((), (1,), (1, 1, 1), (0,), (0, 3), (3, 0), (2, 0, 5)):
        given = arrays(name, shape, np.float32)
        found = np.asarray(CALLS[name][1](*given))
        assert found.shape == shape
        if found.size:
            same(found.reshape(1), np.asarray(CALLS[name][1](*(a.reshape(1) for a in given))))


# Functions whose result for an empty array is empty, and those that refuse it in one sentence.
EMPTY = {
    "quantize": (0, 4), "quantize stochastic": (0, 4), "quantize to fp64 numbers": (0, 4), "encode": (0, 4), "decode": (0, 4),
    "add": (0, 4), "subtract": (0, 4),
    "multiply": (0, 4), "divide": (0, 4), "sqrt": (0, 4), "fma": (0, 4), "sum": (),
    "sum along": (0,), "dot": (0,),
    "quantize_blocks": (0, 4), "pack": (0, 2),
}  # fmt: skip


@pytest.mark.parametrize("name", list(CALLS))
def test_nothing_gives_nothing_or_one_sentence(name):
    given = arrays(name, (0, 4), np.float32)
    try:
        result = CALLS[name][1](*given)
    except ValueError as error:
        assert name not in EMPTY, error
        assert str(error) and "\n" not in str(error)
        return
    if name in EMPTY:
        assert np.asarray(result).shape == EMPTY[name]
    assert all(
        np.isfinite(leaf).all() or leaf.size == 1
        for leaf in leaves(result)
        if leaf.dtype.kind == "f"
    )


@pytest.mark.parametrize("topology", ["sequential", "ring", "tree", "hierarchical:2"])
def test_workers_with_fewer_elements_than_workers(topology):
    for n in (0, 1, 3):
        x = floats((5, n))
        found = apscope.allreduce(x, FORMAT, topology=topology)
        assert found.shape == (n,)
        for i in range(n):  # the order of a ring depends on the chunk that an element lies in
            alone = apscope.allreduce(
                np.repeat(x[:, i : i + 1], n, axis=1), FORMAT, topology=topology
            )
            assert found[i] == alone[i]


@pytest.mark.parametrize(
    "shapes", [((2, 0), (0, 3)), ((0, 4), (4, 3)), ((2, 4), (4, 0)), ((1, 1), (1, 1))]
)
def test_matrix_products_of_nothing_are_zeros_of_their_shape(shapes):
    a, b = floats(shapes[0]), floats(shapes[1])
    found = apscope.matmul(a, b, FORMAT)
    assert found.shape == (shapes[0][0], shapes[1][1])
    if 0 in shapes[0]:
        assert not found.any()


@pytest.mark.parametrize("view", list(VIEWS))
def test_matrix_products_of_views(view):
    a, b = floats((5, 7)), floats((7, 3))
    same(apscope.matmul(VIEWS[view](a), VIEWS[view](b), FORMAT), apscope.matmul(a, b, FORMAT))
    same(apscope.matmul(b.T, a.T, FORMAT), apscope.matmul(b.T.copy(), a.T.copy(), FORMAT))


@pytest.mark.parametrize("view", list(VIEWS))
def test_blocks_are_decoded_from_views(view):
    blocks = apscope.encode_blocks(floats((4, 64)), "mxfp8_e4m3")
    expected = apscope.decode_blocks(blocks.codes, blocks.scales, "mxfp8_e4m3")
    same(
        apscope.decode_blocks(VIEWS[view](blocks.codes), VIEWS[view](blocks.scales), "mxfp8_e4m3"),
        expected,
    )


@pytest.mark.parametrize(
    "place", ["strided", "reversed", "unaligned", "Fortran order", "of a subclass"]
)
@pytest.mark.parametrize(
    "name", ["quantize", "encode", "decode", "add", "sqrt", "fma", "quantize_blocks"]
)
def test_results_go_into_any_array(name, place):
    given = arrays(name, (3, 64), np.float32)
    function = getattr(apscope, name)
    format = "mxfp8_e4m3" if name == "quantize_blocks" else FORMAT
    expected = function(*given, format)
    out = VIEWS[place](np.zeros_like(expected))
    assert function(*given, format, out=out) is out
    assert np.array_equal(out, expected, equal_nan=True)


def test_an_array_may_take_its_own_result_from_any_view():
    x = floats(1000)
    expected = apscope.quantize(x[::2].copy(), FORMAT)
    apscope.quantize(x[::2], FORMAT, out=x[::2])
    assert np.array_equal(x[::2], expected)


@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 0), (1, 1)])
def test_torch_tensors_keep_their_shape(shape):
    torch = pytest.importorskip("torch")
    x = floats(shape)
    found = apscope.quantize(torch.tensor(x), FORMAT)
    assert tuple(found.shape) == shape
    assert np.array_equal(found.numpy(), apscope.quantize(x, FORMAT))


def test_torch_views_give_what_contiguous_tensors_give():
    torch = pytest.importorskip("torch")
    x = torch.tensor(floats((6, 8)))
    for view in (x.T, x[::2], x[:, ::3], x[1:, 1:], x.expand(2, 6, 8)):
        assert torch.equal(
            apscope.quantize(view, FORMAT), apscope.quantize(view.contiguous(), FORMAT)
        )


def test_broadcast_arrays_are_read_element_by_element():
    x = np.broadcast_to(floats((1, 5)), (4, 5))
    same(apscope.quantize(x, FORMAT), apscope.quantize(x.copy(), FORMAT))
    same(apscope.add(x, x, FORMAT), apscope.add(x.copy(), x.copy(), FORMAT))
    same(apscope.allreduce(x, FORMAT), apscope.allreduce(x.copy(), FORMAT))


def test_tensors_of_no_and_of_one_element_replay_through_every_scheme(tmp_path):
    with TraceWriter(tmp_path / "t", workers=3, reduction="mean") as writer:
        for step in range(3):
            for worker in range(3):
                for name, shape in (
                    ("empty", (0,)),
                    ("empty.too", (4, 0)),
                    ("one", (1,)),
                    ("scalar", ()),
                    ("some", (5,)),
                ):
                    writer.add(step, worker, name, floats(shape))
            writer.end_step(step, loss=1.0, learning_rate=0.1)
    results = apscope.replay(
        tmp_path / "t", "all", topology=["ring", "tree", "sequential", "hierarchical:2"], threads=2
    )
    frame = results.frame
    empty = frame[frame["tensor"].str.startswith("empty")]
    assert len(empty) and (empty["count"].fillna(0) == 0).all()
    assert empty[["bias", "mse", "nmse"]].isna().all().all()
    wire = frame[(frame["tensor"].isin(["one", "scalar"])) & (frame["stage"] == "wire")]
    assert (wire["count"] == 3).all()
    merged = apscope.merge(
        [apscope.replay(tmp_path / "t", "all", topology=["ring"], shard=(i, 7)) for i in range(7)]
    )
    assert merged.frame.equals(apscope.replay(tmp_path / "t", "all", topology=["ring"]).frame)
    results.save(tmp_path / "r")
    assert apscope.Results.open(tmp_path / "r").frame.equals(frame)
