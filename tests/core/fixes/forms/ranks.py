"""Trainings of several ranks that reduce gradients."""

from __future__ import annotations

from tests.core.fixes.forms.form import Form

_HEAD = """
        from torch.nn.parallel import DistributedDataParallel as DDP
        model = DDP(net)
"""

RANKS = (
    Form(
        "a step every few micro-batches",
        "no-sync",
        f"""{_HEAD}
        for epoch in range(9):
            for i, (x, y) in enumerate(loader):
                x = x.to(device)
                # the forward pass
                loss = f(model(x), y) / steps
                loss.backward()  # here
                if (i + 1) % steps == 0 or i + 1 == len(loader):
                    clip_grad_norm_(model.parameters(), 1.0)
                    optimizer.step()
                    optimizer.zero_grad()
            scheduler.step()
        """,
        ("model.require_backward_grad_sync = (i + 1) % steps == 0 or i + 1 == len(loader)",),
    ),
    Form(
        "micro-batches in a loop of their own",
        "no-sync",
        f"""{_HEAD}
        for step in range(9):
            for micro_step in range(args.accumulate):
                with torch.autocast("cuda"):
                    loss = model(*batch()) / args.accumulate
                scaler.scale(loss).backward()  # here
            scaler.step(optimizer)
            optimizer.zero_grad()
        """,
        ("model.require_backward_grad_sync = micro_step == args.accumulate - 1",),
    ),
    Form(
        "micro-batches that nothing counts",
        "no-sync",
        f"""{_HEAD}
        for _ in range(9):
            for _ in range(4):
                loss = f(model(x), y)
                loss.backward()  # here
            optimizer.step()
        """,
        ("for micro in range(4):", "model.require_backward_grad_sync = micro == 3"),
    ),
    Form(
        "a function that is given the model",
        "no-sync",
        """
        import torch
        def epoch(net, loader):
            for i, (x, y) in enumerate(loader):
                net.train()
                loss = compute(net, x, y)
                loss.backward()  # here
                if not (i + 1) % 4:
                    opt.step()
        def main():
            model = Net()
            if distributed:
                model = torch.nn.parallel.DistributedDataParallel(model)
            epoch(model, loader)
        """,
        ("net.require_backward_grad_sync = not (i + 1) % 4",),
    ),
    Form(
        "a trainer that wraps the model",
        "no-sync",
        """
        from torch.nn.parallel import DistributedDataParallel
        class Trainer:
            def __init__(self, net, every):
                self.every, self.steps = every, 0
                self.net = net
                self.net = DistributedDataParallel(self.net)
            def train(self):
                for x, y in self.loader:
                    self.steps += 1
                    loss = f(self.net(x), y)
                    loss.backward()  # here
                    if self.steps % self.every == 0:
                        self.optimizer.step()
        """,
        ("self.net.require_backward_grad_sync = self.steps % self.every == 0",),
    ),
    Form(
        "a counter behind the forward pass",
        "no-sync",
        f"""{_HEAD}
        step = 0
        for x, y in loader:
            loss = f(model(x), y)
            step += 1
            loss.backward()  # here
            if step % 4 == 0:
                optimizer.step()
        """,
        refused="line 7 sets step after the forward pass",
    ),
    Form(
        "a second backward pass",
        "no-sync",
        f"""{_HEAD}
        for i, (x, y) in enumerate(loader):
            f(model(x), y).backward()  # here
            if i % 4 == 3:
                optimizer.step()
                penalty(model).backward()
        """,
        refused="the file runs backward in 2 places",
    ),
    Form(
        "a model of another wrapper",
        "no-sync",
        """
        model = accelerator.prepare(net)
        for i, (x, y) in enumerate(loader):
            f(model(x), y).backward()  # here
            if i % 4 == 3:
                optimizer.step()
        """,
        refused="0 calls of DistributedDataParallel",
    ),
    Form(
        "a model that is wrapped again",
        "no-sync",
        f"""{_HEAD}
        model = torch.compile(model)
        for i, (x, y) in enumerate(loader):
            f(model(x), y).backward()  # here
            if i % 4 == 3:
                optimizer.step()
        """,
        refused="line 4 gives model another value",
    ),
    Form(
        "gradients that are clipped in each micro-batch",
        "no-sync",
        f"""{_HEAD}
        for i, (x, y) in enumerate(loader):
            f(model(x), y).backward()  # here
            clip_grad_norm_(model.parameters(), 1.0)
            if i % 4 == 3:
                optimizer.step()
        """,
        refused="needs the gradients of each micro-batch",
    ),
    Form(
        "gradients that are looked at by a function",
        "no-sync",
        f"""{_HEAD}
        for i, (x, y) in enumerate(loader):
            f(model(x), y).backward()  # here
            log(model)
            if i % 4 == 3:
                optimizer.step()
        """,
        refused="may need the gradients of each micro-batch",
    ),
    Form(
        "a step that the loss decides",
        "no-sync",
        f"""{_HEAD}
        for i, (x, y) in enumerate(loader):
            loss = f(model(x), y)
            loss.backward()  # here
            if i % 4 == 3 and isfinite(loss):
                optimizer.step()
        """,
        refused="tests more than a count",
    ),
    Form(
        "a step in each turn",
        "no-sync",
        f"""{_HEAD}
        for x, y in loader:
            TRAIN  # here
        """.replace(
            "TRAIN  # here", "f(model(x), y).backward()  # here\n            optimizer.step()"
        ),
        refused="outside of one condition",
    ),
    Form(
        "a step for what is left over",
        "no-sync",
        f"""{_HEAD}
        for i, (x, y) in enumerate(loader):
            f(model(x), y).backward()  # here
            if i % 4 == 3:
                optimizer.step()
        optimizer.step()
        """,
        refused="outside of one condition",
    ),
    Form(
        "micro-batches that may be left out",
        "no-sync",
        f"""{_HEAD}
        for _ in range(9):
            for micro in range(4):
                loss = f(model(x), y)
                if loss.isnan():
                    continue
                loss.backward()  # here
            optimizer.step()
        """,
        refused="may end the loop or an iteration early",
    ),
    Form(
        "done by the script",
        "no-sync",
        f"""{_HEAD}
        for i, (x, y) in enumerate(loader):
            with model.no_sync():
                f(model(x), y).backward()  # here
            if i % 4 == 3:
                optimizer.step()
        """,
        refused="already controls when gradients are reduced",
    ),
    Form(
        "a bucket for all gradients",
        "buckets",
        """
        from torch.nn.parallel import DistributedDataParallel as DDP
        model = DDP(net, device_ids=[rank], bucket_cap_mb=1000, static_graph=True)  # here
        """,
        ("model = DDP(net, device_ids=[rank], static_graph=True)",),
    ),
    Form(
        "a bucket for all gradients, on a line of its own",
        "buckets",
        """
        import torch
        model = torch.nn.parallel.DistributedDataParallel(net,  # here
            bucket_cap_mb=1e3)
        """,
        ("model = torch.nn.parallel.DistributedDataParallel(net)",),
    ),
    Form(
        "a bucket for all gradients, with a comment",
        "buckets",
        """
        import torch
        model = torch.nn.parallel.DistributedDataParallel(  # here
            net,
            bucket_cap_mb=1000,  # one for all
        )
        """,
        refused="a comment stands with bucket_cap_mb",
    ),
    Form(
        "a cap that is just above the usual one",
        "buckets",
        """
        from torch.nn.parallel import DistributedDataParallel as DDP
        model = DDP(net, bucket_cap_mb=26)  # here
        """,
        ("model = DDP(net)",),
    ),
    Form(
        "buckets of the usual size",
        "buckets",
        """
        from torch.nn.parallel import DistributedDataParallel as DDP
        model = DDP(net, bucket_cap_mb=25)  # here
        """,
        refused="bucket_cap_mb is 25, not above 25",
    ),
    Form(
        "smaller buckets",
        "buckets",
        """
        from torch.nn.parallel import DistributedDataParallel as DDP
        model = DDP(net, bucket_cap_mb=4)  # here
        """,
        refused="bucket_cap_mb is 4, not above 25",
    ),
    Form(
        "buckets that torch chooses",
        "buckets",
        """
        from torch.nn.parallel import DistributedDataParallel as DDP
        model = DDP(net)  # here
        """,
        refused="the call gives no bucket_cap_mb",
    ),
    Form(
        "a bucket whose size an option gives",
        "buckets",
        """
        from torch.nn.parallel import DistributedDataParallel as DDP
        model = DDP(net, bucket_cap_mb=args.cap)  # here
        """,
        refused="bucket_cap_mb=args.cap is not a literal",
    ),
    Form(
        "a bucket whose size a dict may give",
        "buckets",
        """
        from torch.nn.parallel import DistributedDataParallel as DDP
        model = DDP(net, **options)  # here
        """,
        refused="bucket_cap_mb may come from **options",
    ),
    Form(
        "a bucket whose size is given by position",
        "buckets",
        """
        from torch.nn.parallel import DistributedDataParallel as DDP
        model = DDP(net, [0], 0, 0, True, True, None, 1000)  # here
        """,
        refused="bucket_cap_mb is given by position",
    ),
    Form(
        "a size for each bucket",
        "buckets",
        """
        from torch.nn.parallel import DistributedDataParallel as DDP
        model = DDP(net, bucket_cap_mb=1000, bucket_cap_mb_list=[4, 500])  # here
        """,
        refused="bucket_cap_mb_list is given, too",
    ),
    Form(
        "a hook that is given buckets",
        "buckets",
        """
        from torch.nn.parallel import DistributedDataParallel as DDP
        model = DDP(net, bucket_cap_mb=1000)  # here
        model.register_comm_hook(None, sparsified)
        """,
        refused="line 3 registers a hook",
    ),
    Form(
        "two models, each in one bucket",
        "buckets",
        """
        from torch.nn.parallel import DistributedDataParallel as DDP
        critic = DDP(net, bucket_cap_mb=1000)  # here
        actor = DDP(net, bucket_cap_mb=1000)
        """,
        refused="the file has 2 calls of DistributedDataParallel",
    ),
)
