"""The tables of docs/blocks_across_layers.md are those that its command writes, and its sentences
are theirs."""

from pathlib import Path

import numpy as np
import pytest

import apscope

DOCS = Path(__file__).parents[3] / "docs"
INT8, FP8, SMALL, MXFP4 = (
    "int8, blocks of 256",
    "e4m3fn, groups of 256",
    "int8, blocks of 32",
    "mxfp4, blocks of 32",
)


@pytest.fixture
def blocks(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS))
    import blocks_across_layers

    return blocks_across_layers


@pytest.mark.parametrize("name", ["transformer", "resnet18", "characters", "exempt"])
def test_a_table_is_what_its_command_writes(blocks, name):
    text = (DOCS / "blocks_across_layers.md").read_text()
    written = text.partition(f"<!-- {name}: written by make tables -->\n\n")[2]
    lines = written.partition(f"\n\n<!-- end of {name} -->")[0].splitlines()
    assert lines == blocks.TABLES[name](), "run make tables"


def test_what_the_page_says_of_the_layers(blocks):
    def factors(trace, scheme):
        return blocks.layers(trace, blocks.SCHEMES[scheme])["factor"]

    last = factors("resnet18", INT8)
    assert set(last[last > 100].index) == {"layer4.1.bn2.bias", "layer4.1.bn2.weight"}
    for trace in blocks.TRACES:
        assert max(factors(trace, FP8).max(), factors(trace, MXFP4).max()) < 4
        assert factors(trace, INT8).max() > factors(trace, SMALL).max() > 1
        small = blocks.exempt(trace)
        matrices = factors(trace, INT8).drop(small)
        assert matrices.median() < factors(trace, INT8)[small].median()
        share = sum(blocks.sizes(trace)[name] for name in small)
        assert share < 0.08 * sum(blocks.sizes(trace).values())
        for spec in blocks.SCHEMES.values():
            assert blocks.left(trace, spec).max() < blocks.layers(trace, spec)["factor"].max()


def test_a_figure_over_all_layers_hides_the_loss(blocks):
    spec = blocks.SCHEMES[INT8]
    found = blocks.replayed("resnet18").compare(spec + blocks.BUCKET, spec).set_index("layer")
    everything = found.loc["all"]
    assert everything.error_over_noise_a < 1.5 * everything.error_over_noise_b


def test_how_small_the_last_norm_of_resnet18_is():
    trace = apscope.open_trace(DOCS.parent / "notebooks" / "data" / "resnet18")

    def size(step, name):
        rows = [trace.read(step, name, w).astype(np.float64) for w in range(trace.workers)]
        return np.sqrt(np.mean(np.square(rows)))

    times = [
        size(step, "fc.weight") / size(step, f"layer4.1.bn2.{what}")
        for step in trace.steps
        for what in ("weight", "bias")
    ]
    assert 20 <= min(times) and max(times) <= 32


def test_recommend_names_the_layers(blocks):
    """The command of the page."""
    spec = blocks.SCHEMES[INT8] + blocks.BUCKET
    plan = apscope.recommend(
        DOCS.parent / "notebooks" / "data" / "resnet18",
        [spec, "none:bf16"],
        topology="two_phase",
        minimize="error_over_noise",
        max_volume=0.28,
    )
    chosen = {
        name: str(scheme) for name, scheme in plan.layers.set_index("layer")["scheme"].items()
    }
    apart = {name for name, scheme in chosen.items() if scheme == "none:bf16"}
    assert {"layer4.1.bn2.bias", "layer4.1.bn2.weight", "layer4.0.bn2.bias"} < apart
    assert len(apart & set(blocks.exempt("resnet18"))) > 0.9 * len(apart)
    assert chosen["layer4.1.conv1.weight"] == spec
    error = plan.figures.groupby("what")["error_over_noise"].max()
    assert error["plan replayed"] < 0.6 * error["single"]
