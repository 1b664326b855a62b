"""Averages of weights that are updated parameter by parameter."""

from __future__ import annotations

from tests.core.fixes.forms.form import Form

_ROWS = "rows = [(e, p) for e, p in zip(ema.parameters(), net.parameters())]"
_PAIRS = "averages, weights = zip(*rows)"
_MUL = "torch._foreach_mul_(averages, decay)"
_ADD = "torch._foreach_add_(averages, weights, alpha=1 - decay)"

AVERAGES = (
    Form(
        "multiplied and added",
        "average",
        """
        import torch
        decay = 0.99
        with torch.no_grad():
            # the teacher
            for e, p in zip(ema.parameters(), net.parameters()):
                e.mul_(decay).add_(p, alpha=1 - decay)  # here
        """,
        (f"{_ROWS}", _PAIRS, _MUL, _ADD),
    ),
    Form(
        "in two lines",
        "average",
        """
        import torch
        def update(net, ema, decay=0.99):
            for e, p in zip(ema.parameters(), net.parameters()):
                e.data.mul_(decay)
                e.data.add_((1 - decay) * p.detach())  # here
        """,
        (
            "rows = [(e.data, p.detach()) for e, p in zip(ema.parameters(), net.parameters())]",
            _PAIRS,
            _MUL,
            _ADD,
        ),
    ),
    Form(
        "by a number of a dataclass",
        "average",
        """
        import torch
        @dataclass
        class Args:
            tau: float = 0.005
        args = parsed(Args)
        for p, e in zip(net.parameters(), ema.parameters()):
            e.data.copy_(args.tau * p.data + (1.0 - args.tau) * e.data)  # here
        """,
        (
            "rows = [(e.data, p.data) for p, e in zip(net.parameters(), ema.parameters())]",
            _PAIRS,
            "torch._foreach_mul_(averages, 1.0 - args.tau)",
            "torch._foreach_add_(averages, weights, alpha=args.tau)",
        ),
    ),
    Form(
        "by a tensor of a dataclass",
        "average",
        """
        import torch
        @dataclass
        class Args:
            tau: torch.Tensor
        args = parsed(Args)
        for p, e in zip(net.parameters(), ema.parameters()):
            e.data.copy_(args.tau * p.data + (1.0 - args.tau) * e.data)  # here
        """,
        refused="1.0 - args.tau may not be a number",
    ),
    Form(
        "interpolated",
        "average",
        """
        import torch
        @torch.no_grad()
        def update(net, ema, step):
            decay = min(0.999, (1 + 3) / (10 + 3))
            for e, p in zip(ema.parameters(), net.parameters(), strict=True):
                if not p.requires_grad:
                    continue
                e.lerp_(p, 1 - decay)  # here
        """,
        (
            "rows = [(e, p) for e, p in zip(ema.parameters(), net.parameters(), strict=True)"
            " if p.requires_grad]",
            _PAIRS,
            "torch._foreach_lerp_(averages, weights, 1 - decay)",
        ),
    ),
    Form(
        "new data for each tensor",
        "average",
        """
        import torch
        class Moco:
            def __init__(self, net, ema, m=0.999):
                self.m = m
            @torch.no_grad()
            def update(self):
                for q, k in zip(self.net.parameters(), self.ema.parameters()):
                    k.data = k.data * self.m + q.data * (1. - self.m)  # here
        """,
        (
            "rows = [(k, k.data, q.data) for q, k in zip(self.net.parameters(),"
            " self.ema.parameters())]",
            "owners, averages, weights = zip(*rows)",
            "averages = torch._foreach_mul(averages, self.m)",
            "torch._foreach_add_(averages, weights, alpha=1.0 - self.m)",
            "for owner, average in zip(owners, averages):",
            "owner.data = average",
        ),
    ),
    Form(
        "a dict of averages",
        "average",
        """
        import torch
        class EMA:
            def __init__(self, model, decay: float):
                self.decay, self.shadow = decay, {}
                self.decay = decay
            def update(self, model):
                for name, p in model.named_parameters():
                    if p.requires_grad:
                        assert name in self.shadow
                        new = (1.0 - self.decay) * p.data + self.decay * self.shadow[name]
                        self.shadow[name] = new.clone()  # here
        """,
        refused="self.decay may not be a number",
    ),
    Form(
        "a dict of averages, and a decay that is a number",
        "average",
        """
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
        """,
        (
            "rows = [(name, self.shadow[name], p.data) for name, p in model.named_parameters()"
            " if p.requires_grad]",
            "names, averages, weights = zip(*rows)",
            "averages = torch._foreach_mul(averages, self.decay)",
            "torch._foreach_add_(averages, weights, alpha=1.0 - self.decay)",
            "self.shadow.update(zip(names, averages))",
        ),
    ),
    Form(
        "tensors by their names",
        "average",
        """
        import torch
        def accumulate(ema, net, decay=0.999):
            ours = OrderedDict(ema.named_parameters())
            theirs = dict(net.named_parameters())
            for k in ours.keys():
                ours[k].data.mul_(decay).add_(theirs[k].data, alpha=1 - decay)  # here
        """,
        (
            "rows = [(ours[k].data, theirs[k].data) for k in ours.keys()]",
            _PAIRS,
            _MUL,
            _ADD,
        ),
    ),
    Form(
        "a factor that may be a tensor",
        "average",
        """
        import torch
        def update(net, ema, decay):
            for e, p in zip(ema.parameters(), net.parameters()):
                e.copy_(decay * e + (1 - decay) * p)  # here
        """,
        refused="decay may not be a number",
    ),
    Form(
        "a state_dict, which holds counts and tied weights, too",
        "average",
        """
        import torch
        for key, value in net.state_dict().items():
            ema[key].mul_(0.9).add_(value, alpha=0.1)  # here
        """,
        refused="no loop certainly averages",
    ),
    Form(
        "averages that may be one tensor by two names",
        "average",
        """
        import torch
        for name, p in net.named_parameters():
            ema.state_dict_of[name].mul_(0.9).add_(p, alpha=0.1)  # here
        """,
        refused="may hold one tensor twice",
    ),
    Form(
        "a factor of each parameter",
        "average",
        """
        import torch
        for e, p in zip(ema.parameters(), net.parameters()):
            e.mul_(p.decay).add_(p, alpha=0.1)  # here
        """,
        refused="no loop certainly averages",
    ),
    Form(
        "more than an average",
        "average",
        """
        import torch
        for e, p in zip(ema.parameters(), net.parameters()):
            e.mul_(0.9).add_(p, alpha=0.1)  # here
            count += 1
        """,
        refused="no loop certainly averages",
    ),
    Form(
        "a name that is read behind the loop",
        "average",
        """
        import torch
        for e, p in zip(ema.parameters(), net.parameters()):
            e.mul_(0.9).add_(p, alpha=0.1)  # here
        print(p.norm())
        """,
        refused="line 4 reads p after the loop",
    ),
)
