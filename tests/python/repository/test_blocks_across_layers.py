"""The sentences of docs/blocks_across_layers.md are those of its tables."""

import pytest

import apscope
from docs.tools import blocks_across_layers as blocks
from docs.tools.page import DOCS, rows

PAGE = DOCS / "blocks_across_layers.md"
INT8, FP8, SMALL, MXFP4 = (
    "int8, blocks of 256",
    "e4m3fn, groups of 256",
    "int8, blocks of 32",
    "mxfp4, blocks of 32",
)


def test_what_the_page_says_of_the_layers():
    def factors(trace, scheme):
        return blocks.layers(trace, blocks.SCHEMES[scheme])["factor"]

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


def test_what_the_page_says_of_resnet18():
    worst = rows(PAGE, "resnet18")  # which is not in the repository whole
    assert [row[0] for row in worst] == [name for name in blocks.SCHEMES for _ in range(5)]
    times = {
        name: max(float(row[-1]) for row in worst if row[0] == name) for name in blocks.SCHEMES
    }
    assert 10 < times[INT8] < 15 and times[SMALL] > 2 and max(times[FP8], times[MXFP4]) < 1.3
    assert "lose ten times as much" in PAGE.read_text()
    for _, share, name, _, first, lose, then in rows(PAGE, "resnet18 exempt"):
        assert float(share.removesuffix(" %")) < 0.1
        assert float(first) == times[name] > float(then) and lose == "0"


def test_blocks_of_a_bucket_refuse_the_bundled_sample():
    spec = blocks.SCHEMES[INT8] + blocks.BUCKET
    with pytest.raises(ValueError, match="sample"):
        apscope.replay(DOCS.parent / "notebooks/data/resnet18", spec)


def test_a_figure_over_all_layers_hides_the_loss():
    spec = blocks.SCHEMES[INT8]
    for trace in blocks.TRACES:
        found = blocks.replayed(trace).compare(spec + blocks.BUCKET, spec).set_index("layer")
        everything = found.loc["all"]
        assert everything.error_over_noise_a < 1.8 * everything.error_over_noise_b
        assert blocks.layers(trace, spec)["factor"].max() > 5


def test_recommend_names_the_layers():
    """The command of the page."""
    spec = blocks.SCHEMES[INT8] + blocks.BUCKET
    plan = apscope.recommend(
        DOCS.parent / "notebooks" / "data" / "digits",
        [spec, "none:bf16"],
        topology="two_phase",
        minimize="error_over_noise",
        max_volume=0.28,
    )
    chosen = {
        name: str(scheme) for name, scheme in plan.layers.set_index("layer")["scheme"].items()
    }
    apart = {name for name, scheme in chosen.items() if scheme == "none:bf16"}
    assert apart == {"norm.weight", "norm.bias", "head.bias", "conv1.weight"}
    assert chosen["conv2.weight"] == spec
    error = plan.figures.groupby("what")["error_over_noise"].max()
    assert error["plan replayed"] < 0.6 * error["single"]
