"""A rank that ends in the middle of a training: the others say so, with the step and their rank.
And exceptions in hooks: the training goes on where its caller lets it."""

import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")


@pytest.mark.parametrize(
    "kind, how", [("ddp", "killed"), ("ddp", "raises"), ("fsdp", "raises"), ("cpd", "exits")]
)
def test_the_others_say_which_step_and_rank(request, tmp_path, kind, how):
    subprocess.run(
        [sys.executable, "-m", "tests.python.hostile.dead_rank_job", tmp_path, kind, how],
        cwd=request.config.rootpath, timeout=120, check=True, capture_output=True,
    )  # fmt: skip
    for rank in (0, 1):
        kind_of, said = (tmp_path / f"rank-{rank}").read_text().split("\n", 1)
        # Under FSDP2 the first that fails may be its own all-gather of the parameters.
        if kind == "fsdp" and "apscope" not in said:
            continue
        assert kind_of == "RuntimeError"
        at = "" if kind == "cpd" else " at step 2"
        assert (
            f"apscope: rank {rank} of 3 did not receive the gradients of the other ranks{at}: "
            "another process ended, or its connection was lost"
        ) in said
        assert "(gloo: " in said
    if how == "raises":
        assert "a mistake of rank 2 alone" in (tmp_path / "rank-2").read_text()
