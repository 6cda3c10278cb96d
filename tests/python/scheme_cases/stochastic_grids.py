from . import Case

CASES: list[Case] = [
    Case("stochastic:e4m3", order=False),
    Case("stochastic:e5m2,random_bits=3", order=False),
    Case("qsgd", order=False),
    Case("qsgd:levels=1,bucket=20,random_bits=4", order=False),
    Case("qsgd:levels=5,bucket=10,norm=max", order=False),
    Case("qsgd:levels=3,bucket=20,code=elias", order=False),
    Case("natural", order=False),
    Case("natural:random_bits=5", order=False),
    Case("terngrad", order=False, homogeneous=True),
    Case("terngrad:clip=0", order=False, homogeneous=True),
    Case("zipml:levels=4", order=False),
    Case("zipml:levels=3,bucket=16,method=exact", order=False),
    Case("zipml:levels=4,method=candidates,candidates=8", order=False),
]
