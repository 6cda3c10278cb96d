import numpy as np

from . import Case


def largest(g, k):
    """The k largest magnitudes, of equals the first; the others as 0."""
    out = np.zeros_like(g)
    kept = np.argsort(-abs(g), kind="stable")[:k]
    out[kept] = g[kept]
    return out


# Ranks draw apart where rounding is stochastic; in the others what a worker sends may still depend
# on sums over the workers, whose order shows in the last bits.
CASES: list[Case] = [
    Case("fft_sparse"),
    Case("fft_sparse:keep=0.5,bits=6,mantissa=2,bucket=16"),
    Case("top_k:keep=0.1", sent=lambda g: largest(g, max(1, g.size // 10))),
    Case("top_k:keep=0.3,index=packed"),
    Case("sparcml", order=False),
    Case("sparcml:keep=0.2,algorithm=split", sent=lambda g: largest(g, max(1, g.size // 5))),
    Case("random_k:keep=0.1"),
    Case("random_k:keep=0.4,scale=false"),
    Case("zero_blocks:block=4", sent=lambda g: g),
    Case("ok_topk"),
    Case("ok_topk:warmup=0,keep=0.2,threshold_period=2,region_period=3"),
    Case("ok_topk:warmup=1,keep=0.05"),
    Case("powersgd:rank=1", order=False),
    Case("error_feedback(powersgd:rank=2)", order=False),
    Case("thc", order=False, homogeneous=True),
    Case("thc:bits=2,granularity=20", order=False, homogeneous=True),
    Case("thc:table=symmetric,grid=1001,rotation=16,signs=constant", order=False, homogeneous=True),
    Case("dynamiq", order=False, scaled=False),
    Case(
        "dynamiq:widths=dynamic,quantizer=aee,rules=paper,correlated=false",
        order=False,
        scaled=False,
    ),
    Case("integer_allreduce"),
    Case("integer_allreduce:bits=8,chunk=7,rounding=stochastic", order=False),
    Case("integer_allreduce:bits=8,chunk=16,scale=real", homogeneous=True),
]
