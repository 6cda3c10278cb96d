from . import Case

CASES: list[Case] = [
    Case("stochastic:e4m3", order=False),
    Case("stochastic:e5m2,random_bits=3", order=False),
    Case("natural", order=False),
    Case("qsgd", order=False),
    Case("qsgd:levels=1,bucket=20,random_bits=4", order=False),
    Case("qsgd:levels=3,code=elias", order=False),
    Case("qsgd:levels=2,bucket=11,norm=max,code=gamma", order=False),
    Case("qsgd:norm=max,code=delta,random_bits=9", order=False),
    Case("terngrad", order=False),
    Case("terngrad:clip=0,random_bits=8", order=False),
    Case("three_lc"),
    Case("three_lc:sparsity=1.75,rounding=stochastic,random_bits=8", order=False),
    Case("zipml", order=False),
    Case("zipml:levels=3,bucket=17,method=exact", order=False),
    Case("zipml:levels=5,method=fast,random_bits=5", order=False),
    Case("zipml:levels=4,candidates=8", order=False),
    Case("bit_centering"),
    Case("bit_centering:bits=4,mu=0.5,period=2"),
    Case("fractrain", order=False, scaled=False, needs=("loss",)),
    Case("fractrain:bits=2/4/6,epsilon=0.5,alpha=1,least_scale=0", order=False, needs=("loss",)),
]
