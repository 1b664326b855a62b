"""Trainings of several ranks that reduce gradients."""

from tests.core.fixes.forms.form import forms

RANKS = forms(
    """
no-sync: a step every few micro-batches
    HEAD

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
> model.require_backward_grad_sync = (i + 1) % steps == 0 or i + 1 == len(loader)

no-sync: micro-batches in a loop of their own
    HEAD

    for step in range(9):
        for micro_step in range(args.accumulate):
            with torch.autocast("cuda"):
                loss = model(*batch()) / args.accumulate
            scaler.scale(loss).backward()  # here
        scaler.step(optimizer)
        optimizer.zero_grad()
> model.require_backward_grad_sync = micro_step == args.accumulate - 1

no-sync: micro-batches that nothing counts
    HEAD

    for _ in range(9):
        for _ in range(4):
            loss = f(model(x), y)
            loss.backward()  # here
        optimizer.step()
> for micro in range(4):
> model.require_backward_grad_sync = micro == 3

no-sync: a function that is given the model
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
> net.require_backward_grad_sync = not (i + 1) % 4

no-sync: a trainer that wraps the model
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
> self.net.require_backward_grad_sync = self.steps % self.every == 0

no-sync: a counter behind the forward pass
    HEAD

    step = 0
    for x, y in loader:
        loss = f(model(x), y)
        step += 1
        loss.backward()  # here
        if step % 4 == 0:
            optimizer.step()
! line 7 sets step after the forward pass

no-sync: a second backward pass
    HEAD

    for i, (x, y) in enumerate(loader):
        f(model(x), y).backward()  # here
        if i % 4 == 3:
            optimizer.step()
            penalty(model).backward()
! the file runs backward in 2 places

no-sync: a model of another wrapper
    model = accelerator.prepare(net)
    for i, (x, y) in enumerate(loader):
        f(model(x), y).backward()  # here
        if i % 4 == 3:
            optimizer.step()
! 0 calls of DistributedDataParallel

no-sync: a model that is wrapped again
    HEAD

    model = torch.compile(model)
    for i, (x, y) in enumerate(loader):
        f(model(x), y).backward()  # here
        if i % 4 == 3:
            optimizer.step()
! line 4 gives model another value

no-sync: gradients that are clipped in each micro-batch
    HEAD

    for i, (x, y) in enumerate(loader):
        f(model(x), y).backward()  # here
        clip_grad_norm_(model.parameters(), 1.0)
        if i % 4 == 3:
            optimizer.step()
! needs the gradients of each micro-batch

no-sync: gradients that are looked at by a function
    HEAD

    for i, (x, y) in enumerate(loader):
        f(model(x), y).backward()  # here
        log(model)
        if i % 4 == 3:
            optimizer.step()
! may need the gradients of each micro-batch

no-sync: a step that the loss decides
    HEAD

    for i, (x, y) in enumerate(loader):
        loss = f(model(x), y)
        loss.backward()  # here
        if i % 4 == 3 and isfinite(loss):
            optimizer.step()
! tests more than a count

no-sync: a step in each turn
    HEAD

    for x, y in loader:
        f(model(x), y).backward()  # here
        optimizer.step()
! outside of one condition

no-sync: a step for what is left over
    HEAD

    for i, (x, y) in enumerate(loader):
        f(model(x), y).backward()  # here
        if i % 4 == 3:
            optimizer.step()
    optimizer.step()
! outside of one condition

no-sync: micro-batches that may be left out
    HEAD

    for _ in range(9):
        for micro in range(4):
            loss = f(model(x), y)
            if loss.isnan():
                continue
            loss.backward()  # here
        optimizer.step()
! may end the loop or an iteration early

no-sync: done by the script
    HEAD

    for i, (x, y) in enumerate(loader):
        with model.no_sync():
            f(model(x), y).backward()  # here
        if i % 4 == 3:
            optimizer.step()
! already controls when gradients are reduced
""",
    HEAD="""
from torch.nn.parallel import DistributedDataParallel as DDP
model = DDP(net)
""",
)
