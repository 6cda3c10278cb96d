"""Tables across reductions, of the summary and of a comparison, and the times of nodes beside them."""

import io

import numpy as np
import pandas as pd
import pytest

import apscope
from apscope.cli import main
from tests.python.cli.test_command_line_tables import printed, tables_of


def test_the_summary_ranks_across_reductions(capsys, tmp_path, request):
    """A scheme has a row for each reduction that ranks, with its bytes; --topology NAME has one."""
    results = apscope.replay(
        request.config.rootpath / "notebooks/data/digits_w64",
        ["none:fp32", "aps:e4m3fn,rule=tight", "mx"],
        topology=["two_phase", "tree", "ring"],
    )
    folder = str(results.save(tmp_path / "r"))
    table = results.summary()

    def shown(*words):
        lines = printed(capsys, "summary", folder, *words).split("\n\n")[0].splitlines()[2:]
        return [tuple(line.split()[:2]) for line in lines]

    ranks = table[table["topology"].isin(["gather", "two_phase", "tree"])]
    assert shown() == list(zip(ranks["scheme"], ranks["topology"])) and len(ranks) == 6
    assert sorted(shown("--topology", "ring")) == [
        ("aps:e4m3fn,rule=tight", "ring"),
        ("mx", "gather"),
        ("none:fp32", "ring"),
    ]
    assert {name for _, name in shown("--topology", "two_phase")} == {"two_phase"}
    lines = printed(capsys, "summary", folder).splitlines()
    heads = ["scheme", "topology", "step_nmse", "error_over_noise", "volume"]
    assert lines[1].split()[:5] == heads
    assert [float(line.split()[4]) for line in lines[2:8]] == [
        float(f"{v:.3g}") for v in ranks["volume"]
    ]
    with_all = pd.read_csv(io.StringIO(printed(capsys, "summary", folder, "--csv")))
    assert len(with_all) == len(table)


def test_nodes_put_the_time_of_the_exchange_beside_the_error(capsys, folder, results):
    network = apscope.cost.Network.of("nvlink4", "ethernet_25", nodes=2)
    words = ["summary", folder, "--nodes", "2", "--links", "nvlink4,ethernet_25"]
    out = printed(capsys, *words, "--elements", "1e8")
    times = apscope.cost.step_time(results, network, elements=1e8)
    times = times[(times.trace == "digits") & times.topology.isin(["ring", "gather"])]
    lines = [line.split() for line in out.split("\n\n")[0].splitlines()[1:]]
    ms, sent = (lines[0].index(name) for name in ("ms", "node_MB"))
    assert {line[0]: (line[ms], line[sent]) for line in lines[1:]} == {
        r.scheme: (f"{1e3 * r.seconds:.3g}", f"{r.node_bytes / 1e6:.3g}")
        for r in times.itertuples()
    }
    assert f"ms, node_MB: 1e+08 parameters; {network}" in out
    # Gathered are 4 bits a value and 9 norms, of all others; a ring sends both ways.
    gathered, ring = (times[times.scheme == s].node_bytes.iloc[0] for s in ("qsgd", "none:fp32"))
    assert gathered / ring == pytest.approx(
        7 * (4 * 1906 + 9 * 32) / (2 * 7 / 8 * 32 * 1906), rel=1e-12
    )
    table = pd.read_csv(io.StringIO(printed(capsys, *words, "--csv")))
    assert "node_MB" in table and np.array_equal(table.ms, table.time * 1e3, equal_nan=True)
    plain = printed(capsys, "summary", folder)
    assert " ms " not in plain and "node_MB" not in plain


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--nodes", "3"], "nodes=3 does not divide workers=8"),
        (["--nodes", "0"], "nodes=0"),
        (["--links", "nvlink4,ethernet_25"], "needs --nodes"),
        (["--nodes", "2", "--links", "nvlink4"], "not INSIDE,BETWEEN"),
        (["--nodes", "2", "--links", "nvlink4,ethernet"], "did you mean 'ethernet_"),
        (["--nodes", "2", "--by", "layer"], "without --by layer"),
    ],
)
def test_nodes_that_cannot_be_are_refused(capsys, folder, words, named):
    assert main(["summary", folder, *words]) == 2
    assert named in capsys.readouterr().err


def test_recommend_takes_nodes_for_its_times(capsys, folder, tmp_path):
    def seconds(*words):
        out = str(tmp_path / "plan.json")
        assert main(["recommend", folder, "-o", out, "--trace", "digits", "--minimize", "time",
                     "--max-nmse", "1", "--fix", ".*=none:fp32", *words]) == 0  # fmt: skip
        capsys.readouterr()
        return apscope.Plan.open(out).figures["time"].iloc[0]

    network = apscope.cost.Network.of("pcie5_x16", "ethernet_25", nodes=4)
    whole = apscope.cost.collective("ring", 4 * 25.6e6, 8, nodes=4)
    assert seconds("--nodes", "4", "--links", "pcie5_x16,ethernet_25") == pytest.approx(
        whole.seconds(network), rel=1e-6
    )
    assert main(["recommend", str(tmp_path / "plan.json"), "-o", str(tmp_path / "b.json"),
                 "--nodes", "2"]) == 2  # fmt: skip
    assert "--nodes changes the table" in capsys.readouterr().err


def test_options_may_stand_between_the_other_words(capsys, folder):
    words = ["compare", folder, "none:fp32", "qsgd"]
    told = printed(capsys, *words, "--topology", "ring")
    assert printed(capsys, *words[:2], "--topology", "ring", *words[2:]) == told
    assert printed(capsys, words[0], "--topology", "ring", *words[1:]) == told
    assert main(["summary", folder, "--topology", "ring", "more"]) == 2
    assert "summary has no argument 'more'" in capsys.readouterr().err
    assert main(["conformance", "write", folder, "more"]) == 2
    assert "conformance has no argument 'more'" in capsys.readouterr().err


def test_each_scheme_may_name_its_reduction(capsys, folder, results):
    out = printed(capsys, "compare", folder, "aps:e4m3@sequential", "aps:e4m3@ring")
    assert "digits: a = aps:e4m3 (sequential), b = aps:e4m3 (ring, 0.251 of fp32's bytes)\n" in out
    tables = tables_of(out)
    assert [line.split() for line in tables["digits: how they differ: in the reduction alone"]] == [
        ["aspect", "a", "b"],
        ["reduction", "sequential", "ring"],
    ]
    rows = pd.read_csv(
        io.StringIO(
            printed(capsys, "compare", folder, "aps:e4m3@sequential", "aps:e4m3@ring", "--csv")
        )
    )
    wanted = results.compare("aps:e4m3@sequential", "aps:e4m3@ring")
    assert rows.geometric_ratio.tolist() == wanted.geometric_ratio.tolist()
    both = "digits: effect of each difference, from b to a: error before divided by error after, 95 % over the steps"
    out = printed(
        capsys, "compare", folder, "aps:e4m3@sequential", "loss_scaling:e4m3,scale=largest@ring"
    )
    assert "digits: how they differ: in several things" in tables_of(out)
    changes = [line.split()[0] for line in tables_of(out)[both][1:]]
    assert changes == ["reduction", "scale", "scale", "all"]
    # Several sides of one scheme are told apart.
    out = printed(
        capsys, "compare", folder, "aps:e4m3@ring", "aps:e4m3@sequential", "aps:e4m3@exact"
    )
    several = tables_of(out)["digits: a = aps:e4m3@ring, all layers"]
    assert [line.split()[0] for line in several[1:]] == ["aps:e4m3@sequential", "aps:e4m3@exact"]
    # Without a name the others that rank are told: here there are none but the headline.
    assert "was also reduced by" not in printed(capsys, "compare", folder, "aps:e4m3", "qsgd")
