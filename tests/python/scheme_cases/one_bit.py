from . import Case

CASES: list[Case] = [
    Case("sign", homogeneous=True),
    Case("sign:scale=l2,padding=workers", homogeneous=True),
    Case("sign:scale=one", zero=False, scaled=False),
    Case("error_feedback(sign)", homogeneous=True),
    Case("sign_vote", zero=False, scaled=False),
    Case("sign_vote:momentum=0.9,tie=zero", zero=False, scaled=False),
    Case("onebit_adam", own=False, homogeneous=True),
    Case("onebit_adam:beta1=0.5,warmup=2,warmup_format=fp16", own=False, scaled=False),
    Case("birder", zero=False, own=False, order=False, scaled=False),
    Case("birder:beta=0.5,amsgrad=true,group=2", zero=False, own=False, order=False, scaled=False),
    Case("residual(aps:e4m3),points=3"),
    Case("residual(qsgd:levels=3,bucket=16),points=4,nmse=0.01", order=False),
    Case("residual(sign)", homogeneous=True),
    Case("multipoint", homogeneous=True),
    Case("multipoint:bits=1,points=8,nmse=0.2"),
]
