from . import Case

CASES: list[Case] = [
    Case("loss_scaling:e5m2", scaled=False),
    Case("loss_scaling:e4m3,scale=3", scaled=False),
    Case("loss_scaling:e4m3,scale=best,headroom=sqrt_workers"),
    Case("dynamic_loss_scaling:fp16,init=256", scaled=False),
]
