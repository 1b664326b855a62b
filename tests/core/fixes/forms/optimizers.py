"""Optimizers with other arguments, and averages of weights."""

from tests.core.fixes.forms.form import forms

OPTIMIZERS = forms("""
fused: SGD with groups over several lines
    import torch
    opt = torch.optim.SGD(  # here
        [
            {"params": net.body.parameters()},
            {"params": net.head.parameters(), "lr": 1e-2},
        ],
        lr=1e-3, momentum=0.9,
    )
> lr=1e-3, momentum=0.9, fused=True,

fused: an embedding with sparse gradients
    import torch
    words = torch.nn.Embedding(9, 3, sparse=True)
    opt = torch.optim.SGD(words.parameters(), lr=1e-3)  # here
! gradients are sparse at line 2

threads: threads
    import torch
    torch.set_num_threads(1)  # here
> torch.set_num_threads(2)

threads: threads that are computed
    import os, torch
    torch.set_num_threads(os.cpu_count() // 2)  # here
! is computed

anomaly: anomaly detection
    import torch
    torch.autograd.set_detect_anomaly(True)  # here
> torch.autograd.set_detect_anomaly(False)

anomaly: anomaly detection by an option
    import argparse, torch
    parser = argparse.ArgumentParser()
    parser.add_argument("--debug", action="store_true", default=True)
    args = parser.parse_args()
    torch.autograd.set_detect_anomaly(args.debug)  # here
> parser.add_argument("--debug", action="store_true", default=False)

compile: compiled by a decorator
    import torch
    @torch.compile  # here
    def f(x):
        return x
! does not call torch.compile

recompute: a checkpoint with a comment within
    from torch.utils.checkpoint import checkpoint
    x = checkpoint(  # here
        block,
        x,  # the residual
        use_reentrant=False,
    )
! there is a comment inside the call
""")

AVERAGES = forms(
    """
average: multiplied and added
    import torch
    decay = 0.99
    with torch.no_grad():
        # the teacher
        for e, p in zip(ema.parameters(), net.parameters()):
            e.mul_(decay).add_(p, alpha=1 - decay)  # here
> ROWS
> PAIRS
> MUL
> ADD

average: in two lines
    import torch
    def update(net, ema, decay=0.99):
        for e, p in zip(ema.parameters(), net.parameters()):
            e.data.mul_(decay)
            e.data.add_((1 - decay) * p.detach())  # here
> rows = [(e.data, p.detach()) for e, p in zip(ema.parameters(), net.parameters())]
> PAIRS
> MUL
> ADD

average: by a number of a dataclass
    import torch
    @dataclass
    class Args:
        tau: float = 0.005
    args = parsed(Args)
    for p, e in zip(net.parameters(), ema.parameters()):
        e.data.copy_(args.tau * p.data + (1.0 - args.tau) * e.data)  # here
> rows = [(e.data, p.data) for p, e in zip(net.parameters(), ema.parameters())]
> PAIRS
> torch._foreach_mul_(averages, 1.0 - args.tau)
> torch._foreach_add_(averages, weights, alpha=args.tau)

average: by a tensor of a dataclass
    import torch
    @dataclass
    class Args:
        tau: torch.Tensor
    args = parsed(Args)
    for p, e in zip(net.parameters(), ema.parameters()):
        e.data.copy_(args.tau * p.data + (1.0 - args.tau) * e.data)  # here
! 1.0 - args.tau may not be a number

average: interpolated
    import torch
    @torch.no_grad()
    def update(net, ema, step):
        decay = min(0.999, (1 + 3) / (10 + 3))
        for e, p in zip(ema.parameters(), net.parameters(), strict=True):
            if not p.requires_grad:
                continue
            e.lerp_(p, 1 - decay)  # here
> rows = [(e, p) for e, p in zip(ema.parameters(), net.parameters(), strict=True)
>> if p.requires_grad]
> PAIRS
> torch._foreach_lerp_(averages, weights, 1 - decay)

average: new data for each tensor
    import torch
    class Moco:
        def __init__(self, net, ema, m=0.999):
            self.m = m
        @torch.no_grad()
        def update(self):
            for q, k in zip(self.net.parameters(), self.ema.parameters()):
                k.data = k.data * self.m + q.data * (1. - self.m)  # here
> rows = [(k, k.data, q.data) for q, k in zip(self.net.parameters(), self.ema.parameters())]
> owners, averages, weights = zip(*rows)
> averages = torch._foreach_mul(averages, self.m)
> torch._foreach_add_(averages, weights, alpha=1.0 - self.m)
> for owner, average in zip(owners, averages):
> owner.data = average

average: a dict of averages
    import torch
    class EMA:
        def __init__(self, model, decay: float):
            self.decay, self.shadow = loaded(decay)
            self.decay = decay
        def update(self, model):
            for name, p in model.named_parameters():
                if p.requires_grad:
                    assert name in self.shadow
                    new = (1.0 - self.decay) * p.data + self.decay * self.shadow[name]
                    self.shadow[name] = new.clone()  # here
! self.decay may not be a number

average: a dict of averages, and a decay that is a number
    import torch
    class EMA:
        def __init__(self, model, decay: float):
            self.decay = decay
            self.shadow = {}
        def update(self, model):
            for name, p in model.named_parameters():
                if p.requires_grad:
                    assert name in self.shadow
                    new = (1.0 - self.decay) * p.data + self.decay * self.shadow[name]
                    self.shadow[name] = new.clone()  # here
> rows = [(name, self.shadow[name], p.data) for name, p in model.named_parameters()
>> if p.requires_grad]
> names, averages, weights = zip(*rows)
> averages = torch._foreach_mul(averages, self.decay)
> torch._foreach_add_(averages, weights, alpha=1.0 - self.decay)
> self.shadow.update(zip(names, averages))

average: tensors by their names
    import torch
    def accumulate(ema, net, decay=0.999):
        ours = OrderedDict(ema.named_parameters())
        theirs = dict(net.named_parameters())
        for k in ours.keys():
            ours[k].data.mul_(decay).add_(theirs[k].data, alpha=1 - decay)  # here
> rows = [(ours[k].data, theirs[k].data) for k in ours.keys()]
> PAIRS
> MUL
> ADD

average: a factor that may be a tensor
    import torch
    def update(net, ema, decay):
        for e, p in zip(ema.parameters(), net.parameters()):
            e.copy_(decay * e + (1 - decay) * p)  # here
! decay may not be a number

average: a state_dict, which holds counts and tied weights, too
    import torch
    for key, value in net.state_dict().items():
        ema[key].mul_(0.9).add_(value, alpha=0.1)  # here
! no loop certainly averages

average: averages that may be one tensor by two names
    import torch
    for name, p in net.named_parameters():
        ema.state_dict_of[name].mul_(0.9).add_(p, alpha=0.1)  # here
! may hold one tensor twice

average: a factor of each parameter
    import torch
    for e, p in zip(ema.parameters(), net.parameters()):
        e.mul_(p.decay).add_(p, alpha=0.1)  # here
! no loop certainly averages

average: more than an average
    import torch
    for e, p in zip(ema.parameters(), net.parameters()):
        e.mul_(0.9).add_(p, alpha=0.1)  # here
        count += 1
! no loop certainly averages

average: a name that is read behind the loop
    import torch
    for e, p in zip(ema.parameters(), net.parameters()):
        e.mul_(0.9).add_(p, alpha=0.1)  # here
    print(p.norm())
! line 4 reads p after the loop
""",
    ROWS="rows = [(e, p) for e, p in zip(ema.parameters(), net.parameters())]",
    PAIRS="averages, weights = zip(*rows)",
    MUL="torch._foreach_mul_(averages, decay)",
    ADD="torch._foreach_add_(averages, weights, alpha=1 - decay)",
)
