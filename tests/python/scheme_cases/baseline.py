from . import Case

CASES: list[Case] = [
    Case("none:e4m3", scaled=False),
    Case("none:fp16,rounding=stochastic", scaled=False, order=False),
    Case("error_feedback(aps:e4m3)"),
    Case("error_feedback(qsgd:levels=3,bucket=16)", order=False),
    Case("error_feedback(aps:e3m0),decay=0.9"),
]
