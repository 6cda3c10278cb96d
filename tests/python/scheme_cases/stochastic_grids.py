from . import Case

CASES: list[Case] = [
    Case("stochastic:e4m3", order=False),
    Case("stochastic:e5m2,random_bits=3", order=False),
    Case("qsgd", order=False),
    Case("qsgd:levels=1,bucket=20,random_bits=4", order=False),
]
