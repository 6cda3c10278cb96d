from . import Case

CASES: list[Case] = [
    Case("loss_scaling:e5m2", scaled=False),
    Case("loss_scaling:e4m3,scale=3", scaled=False),
    Case("loss_scaling:e4m3,scale=largest,headroom=sqrt_workers", alone=False),
    Case("loss_scaling:e4m3,scale=best,overflow=saturate,by=step_nmse", alone=False),
    Case("dynamic_loss_scaling:fp16,init=256", scaled=False),
    Case("dynamic_loss_scaling:fp16,init=256,min_scale=128,max_scale=512", scaled=False),
    Case("logmax_loss_scaling:fp16", scaled=False),
    Case("deepspeed_loss_scaling:fp16,init=256,window=3,hysteresis=1", scaled=False),
    Case("deepspeed_loss_scaling:e5m2,init=1024,at_minimum=keep,version=2020", scaled=False),
    Case(
        "enhanced_loss_scaling:e5m2,init=64,minimum=0:4/2:16,growth_interval=2",
        scaled=False,
        order=False,
    ),
    Case("adaptive_loss_scaling:fp16", scaled=False),
    Case("adaptive_loss_scaling:e5m2,distribution=normal,upper=1024,interval=2", scaled=False),
    Case("hfp8:e5m2", scaled=False),
]
