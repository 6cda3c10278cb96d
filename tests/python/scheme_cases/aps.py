from . import Case

CASES: list[Case] = [
    Case("aps:e4m3"),
    Case("aps:e3m0,headroom=one"),
    Case("aps:e5m2,rounding=stochastic,random_bits=3", order=False),
    Case("aps:e4m3fn,accumulate=fp32"),
]
