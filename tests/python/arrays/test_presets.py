"""What frameworks run, by its name: the bits of their additions, made with torch's own numbers."""

import numpy as np
import pytest

import apscope

torch = pytest.importorskip("torch")


def rows(workers, n=999):
    g = torch.Generator().manual_seed(workers)
    sizes = 2.0 ** (torch.arange(n) % 40 - 20)
    return (torch.randn(workers, n, generator=g) * sizes).bfloat16()


@pytest.mark.parametrize("workers", [1, 2, 3, 4, 8, 13])
def test_one_shot_and_two_shot_of_symmetric_memory(workers):
    """torch/csrc/distributed/c10d/symm_mem: acc = vec[0]; acc = acc + vec[r], in bf16, by every
    rank of all elements, or by the owner of a part of them."""
    x = rows(workers)
    one_shot = x[0]
    for r in range(1, workers):
        one_shot = one_shot + x[r]
    length = -(-x.shape[1] // workers)
    parts = []
    for owner in range(workers):
        part = x[:, owner * length : (owner + 1) * length]
        acc = part[0]
        for r in range(1, workers):
            acc = acc + part[r]
        parts.append(acc)
    for topology, theirs in (("torch:one_shot", one_shot), ("torch:two_shot", torch.cat(parts))):
        got = apscope.allreduce(x.float().numpy(), "bf16", topology=topology)
        assert np.array_equal(got, theirs.float().numpy())
        e = apscope.exchange("none:bf16,rounding=toward_zero", x.float().numpy(), topology=topology)
        assert np.array_equal(e.reduced, got)  # the kernels round to nearest


@pytest.mark.parametrize("workers", [2, 4, 8])
def test_nccls_average_divides_before_the_sum(workers):
    """Its kernels multiply by 1/W in the format, then add: of a power of two, divide=before."""
    x = rows(workers)
    scaled = x * torch.tensor(1.0 / workers).bfloat16()
    n = x.shape[1]
    theirs = torch.empty(n).bfloat16()
    for k in range(workers):
        chunk = slice(k * n // workers, (k + 1) * n // workers)
        acc = scaled[(k + 1) % workers, chunk]
        for j in range(2, workers + 1):
            acc = acc + scaled[(k + j) % workers, chunk]
        theirs[chunk] = acc
    e = apscope.exchange("none:bf16,divide=before", x.float().numpy(), topology="nccl:ring")
    assert np.array_equal(e.reduced / workers, theirs.float().numpy())
