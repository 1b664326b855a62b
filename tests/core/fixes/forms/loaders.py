"""Loaders with other arguments, and copies of their batches to the GPU."""

from tests.core.fixes.forms.form import forms

LOADERS = forms(
    """
workers: a default divided by the ranks
    PARSED
    args.workers = args.workers // 2
    loader = DataLoader(data, num_workers=args.workers)  # here
! set elsewhere

workers: options updated from a file
    PARSED
    vars(args).update(load())
    loader = DataLoader(data, num_workers=args.workers)  # here
! set elsewhere

workers: a dict for a GPU that the run had (had 1)
    import torch
    kwargs = {"num_workers": 1, "pin_memory": True} if cuda else {}
    train = torch.utils.data.DataLoader(a, batch_size=4, **kwargs)  # here
> kwargs = {"num_workers": 3, "pin_memory": True} if cuda else {}

workers: a dict for a GPU that the run did not have (had 0)
    import torch
    kwargs = {"num_workers": 1, "pin_memory": True} if cuda else {}
    train = torch.utils.data.DataLoader(a, batch_size=4, **kwargs)  # here
! may come from **kwargs

workers: a loader made anew in each epoch
    from torch.utils.data import DataLoader
    for epoch in range(9):
        for x, y in DataLoader(data, batch_size=4):  # here
            TRAIN
! created in a loop

workers: a loader for each fold
    from torch.utils.data import DataLoader
    for fold in range(5):
        loader = DataLoader(parts[fold], batch_size=4)  # here
        for epoch in range(9):
            for x, y in loader:
                TRAIN
> loader = DataLoader(parts[fold], batch_size=4, num_workers=3, persistent_workers=True)

workers: one batch only
    from torch.utils.data import DataLoader
    x, y = next(iter(DataLoader(data, 1000)))  # here
! one pass only

workers: a parameter of a helper
    from torch.utils.data import DataLoader
    def loader_of(data, batch_size, workers=0):
        return DataLoader(data, batch_size, num_workers=workers)  # here
    train = loader_of(a, 32)
> def loader_of(data, batch_size, workers=3):
> return DataLoader(data, batch_size, num_workers=workers, persistent_workers=workers > 0)

workers: a helper that other files call
    from torch.utils.data import DataLoader
    def loader_of(data, batch_size, workers=0):
        return DataLoader(data, batch_size, num_workers=workers)  # here
! called in another file

workers: an attribute of the trainer
    from torch.utils.data import DataLoader
    class Trainer:
        def __init__(self, data, workers=0):
            self.data = data
            self.workers = workers
        def loader(self):
            return DataLoader(self.data, num_workers=self.workers)  # here
    Trainer(data).loader()
> def __init__(self, data, workers=3):
> return DataLoader(self.data, num_workers=self.workers, persistent_workers=self.workers > 0)

workers: a class of settings
    from torch.utils.data import DataLoader
    class Config:
        batch_size = 4
        workers = 0
    loader = DataLoader(data, Config.batch_size, num_workers=Config.workers)  # here
> workers = 3
> loader = DataLoader(data, Config.batch_size, num_workers=Config.workers,
>> persistent_workers=Config.workers > 0)

workers: the cores of the machine
    import os
    from torch.utils.data import DataLoader
    loader = DataLoader(data, num_workers=os.cpu_count())  # here
! is computed

pin: pinned memory where there is a GPU
    import torch
    loader = torch.utils.data.DataLoader(data, pin_memory=torch.cuda.is_available())  # here
! is computed
""",
    PARSED="""
import argparse
from torch.utils.data import DataLoader
parser = argparse.ArgumentParser()
parser.add_argument("--workers", type=int, default=0)
args = parser.parse_args()
""",
)

COPIES = forms(
    """
pin: both parts of a batch
    MADE

    for x, y in loader:
        x, y = x.to(device), y.to(device)
        TRAIN
> PINNED
> x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)

pin: a dict of tensors behind a bar
    MADE

    for i, batch in enumerate(tqdm(loader)):
        batch = {k: v.cuda() for k, v in batch.items()}
        loss = f(model(batch["x"]), batch["y"])
> PINNED
> batch = {k: v.cuda(non_blocking=True) for k, v in batch.items()}

pin: a bar by its name
    MADE

    bar = tqdm(loader, total=9)
    for i, (x, y) in enumerate(bar):
        x = x.to(device)
> PINNED
> x = x.to(device, non_blocking=True)

pin: a function that is given the loader
    from torch.utils.data import DataLoader
    def train(model, batches):
        for batch in batches:
            x = batch["x"].to(f"cuda:{rank}")
            y = batch["y"].to(f"cuda:{rank}")
            TRAIN
    def main():
        loader = DataLoader(data, 32)  # here
        train(model, loader)
> x = batch["x"].to(f"cuda:{rank}", non_blocking=True)
> y = batch["y"].to(f"cuda:{rank}", non_blocking=True)
> PINNED

pin: a batch that the host goes on to change
    MADE

    for x in loader:
        inputs = x.to(device)
        x.clamp_(0, 1)
> PINNED

pin: what comes back from the GPU, what is new, and a move to the CPU
    MADE

    for x, y in loader:
        x = model(x.cuda())
        x = x.to(other_device)
        noise = torch.rand(3).to(device)
        y = y.to("cpu")
> PINNED
> x = model(x.cuda(non_blocking=True))

pin: batches of a class of their own
    from torch.utils.data import DataLoader
    loader = DataLoader(data, 32, collate_fn=together)  # here
    for x in loader:
        x = x.to(device)
> loader = DataLoader(data, 32, collate_fn=together, pin_memory=True)

pin: copies under a condition
    MADE

    for x in loader:
        if cuda:
            x = x.cuda()
> PINNED
""",
    MADE="""
from torch.utils.data import DataLoader
loader = DataLoader(data, 32)  # here
""",
    PINNED="loader = DataLoader(data, 32, pin_memory=True)",
)
