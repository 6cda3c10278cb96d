from . import Case

CASES: list[Case] = [
    Case("delayed_scaling:e5m2,history=2", scaled=False),
    Case(
        "delayed_scaling:e4m3fn,algo=most_recent,margin=1,rounding=stochastic",
        order=False,
        scaled=False,
    ),
    Case("current_scaling:e5m2"),
    Case("current_scaling:e4m3fn,pow2=true,accumulate=format"),
    Case("current_scaling:e4m3fn,agree=local"),
    Case("current_scaling:e4m3fn,pow2=true,block=16,rounding=stochastic", order=False),
    Case("fp8_allreduce:e4m3fn", special=False),  # without a scale at a step that has some
    Case("fp8_allreduce:e4m3,headroom=workers", special=False),
    Case("mx"),
    Case("mx:block_format=mxfp4,rule=rceil,rounding=stochastic", order=False),
    Case("mx:block_format=bfp:8:16"),
    Case("mx:block_format=blocks:e3m2/block=8/rule=even"),
    Case("nvfp4", order=False),
    Case("nvfp4:rounding=stochastic,rht=false,agree=local", order=False),
    Case("nvfp4:rounding=ties_to_even,four_over_six=mse"),
]
