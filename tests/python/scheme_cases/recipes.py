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
    Case("current_scaling:e4m3fn,block=16,nonfinite=one", special=False),
    Case("current_scaling:e4m3fn,block=16,bucket=25MB", alone=False),
    Case("current_scaling:e4m3fn,nonfinite=one", special=False),
    Case("current_scaling:e4m3fn,pow2=true,block=16,rounding=stochastic", order=False),
    Case("fp8_allreduce:e4m3fn", special=False),  # without a scale at a step that has some
    Case("fp8_allreduce:e4m3,headroom=workers", special=False),
    Case("mx", special=False),  # its blocks see them
    Case("mx:block_format=mxfp4,rule=rceil,rounding=stochastic", order=False, special=False),
    Case("mx:block_format=mxfp4,rule=nearest,along=row,nonfinite=torchao", special=False),
    Case("mx:block_format=bfp:8:16", special=False),
    Case("mx:bucket=25MB", alone=False, special=False),
    Case(
        "mx:block_format=mxfp4,bucket=100,rounding=stochastic",
        alone=False,
        order=False,
        special=False,
    ),
    Case("mx:block_format=blocks:e3m2/block=8/rule=even", special=False),
    Case("nvfp4", order=False),
    Case("nvfp4:bucket=25MB", alone=False, order=False),
    Case("nvfp4:rounding=stochastic,rht=false,agree=local", order=False, special=False),
    Case("nvfp4:rounding=ties_to_even,scale=e5m3fnu,tensor_scale=false", order=False, scaled=False),
    Case("nvfp4:rounding=ties_to_even,nonfinite=transformer_engine", order=False, special=False),
    Case("nvfp4:rounding=ties_to_even,four_over_six=mse"),
    # In fp32's subnormal numbers the scale is infinite.
    Case("fp8_two_shot:e4m3fn", own=False, order=False, scaled=False, special=False),
    Case("fp8_two_shot:e5m2,group=16", own=False, order=False, scaled=False, special=False),
    Case(
        "fp8_two_shot:e4m3fn,group=16,bucket=25MB",
        own=False,
        order=False,
        scaled=False,
        special=False,
        alone=False,
    ),
    Case(
        "fp8_two_shot:e3m4,group=row,overflow=saturate",
        own=False,
        order=False,
        scaled=False,
        special=False,
    ),
    Case("quickreduce:int8", own=False, order=False, scaled=False, special=False),
    Case("quickreduce:int6,input=bf16", own=False, order=False, scaled=False, special=False),
    Case(
        "quickreduce:int4,epsilon=1.5378e-5,epsilon_as=bound,overflow=ieee",
        own=False,
        order=False,
        scaled=False,
        special=False,
    ),
]
