from . import Case

CASES: list[Case] = [
    Case("delayed_scaling:e5m2", scaled=False),
    Case("delayed_scaling:e4m3fn,history=2,algo=most_recent,margin=1", scaled=False),
    Case("current_scaling:e5m2"),
    Case("current_scaling:e4m3fn,pow2=true"),
    Case("current_scaling:e4m3fn,agree=local"),
    Case("current_scaling:e4m3fn,block=16,pow2=true"),
    Case("current_scaling:e5m2,block=8,rounding=stochastic", order=False),
    Case("fp8_allreduce:e4m3fn"),
    Case("fp8_allreduce:e5m2,headroom=one"),
    Case("mx"),
    Case("mx:block_format=mxfp4,rule=even,rounding=stochastic", order=False),
    Case("mx:block_format=mxint8"),
    Case("nvfp4", order=False),
    Case("nvfp4:rht=false,rounding=ties_to_even"),
    Case("nvfp4:rounding=ties_to_even,four_over_six=true"),
]
