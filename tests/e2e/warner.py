"""Warns in the name of every caller, at each place that the agent listens at, then fails.

Takes places to fail at, divided by commas, or ``nowhere`` to come to the end, and a number of
workers. All failures but the last are caught and printed, and the training goes on."""

import sys
import traceback
import warnings

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset

LEVELS = range(1, 9)
*CAUGHT, LAST = sys.argv[1].split(",")
WORKERS = int(sys.argv[2])
torch.manual_seed(0)


def warn(place, is_last=False):
    for level in LEVELS:
        warnings.warn(f"{place} {level}", stacklevel=level)
    if is_last and place == failing:
        raise ValueError(f"a bad {place}")


class Items(Dataset):
    def __len__(self):
        return 128

    def __getitem__(self, index):
        warn("item", index == 120)
        return torch.full((4,), float(index != 120))


class Stream(IterableDataset):
    def __len__(self):
        return 3

    def __iter__(self):
        for _ in range(8):
            warn("stream")
            yield torch.ones(4)


class Double(torch.autograd.Function):
    @staticmethod
    def forward(_, x):
        warn("function")
        return x * 2

    @staticmethod
    def backward(_, gradient):
        warn("gradient", model.calls == 20)
        return gradient * 2


class Inner(nn.Linear):
    def forward(self, x):
        warn("inner", model.calls == 20)
        return super().forward(x)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(Inner(4, 4))

    calls = 0

    def forward(self, x):
        self.calls += 1
        warn("forward", self.calls == 20)
        return Double.apply(self.inner(x))


class Optimizer(torch.optim.SGD):
    def step(self, closure=None):
        warn("optimizer", model.calls == 20)
        return super().step(closure)


class Scaler(torch.amp.GradScaler):
    def _maybe_opt_step(self, *args, **kwargs):
        warn("scaler")
        return super()._maybe_opt_step(*args, **kwargs)


class Sampler(torch.utils.data.Sampler):
    def __len__(self):
        return 128

    def __iter__(self):
        warn("sampler")
        yield from range(128)


def collate(items):
    warn("collate", items[0].sum() == 0)
    return torch.stack(items)


class Loader(DataLoader):
    def _get_iterator(self):
        warn("iterator")
        return super()._get_iterator()

    @property
    def multiprocessing_context(self):
        return None

    @multiprocessing_context.setter
    def multiprocessing_context(self, _):
        warn("loader")


model = Model()
optimizer = Optimizer(model.parameters(), lr=0.01)
scaler = Scaler("cpu")
failing = "nowhere"


def step(x):
    optimizer.zero_grad()
    model(x).sum().backward()
    optimizer.step()


for x in DataLoader(Stream(), 2):
    step(x)
for place in CAUGHT:
    failing, model.calls = place, 0
    try:
        for x in Loader(Items(), 4, num_workers=WORKERS, sampler=Sampler(), collate_fn=collate):
            step(x)
    except ValueError:
        traceback.print_exc()
failing, model.calls = LAST, 0
for x in Loader(Items(), 4, num_workers=WORKERS, sampler=Sampler(), collate_fn=collate):
    step(x)
for x in DataLoader(torch.ones(8, 4), 2):
    scaler.scale(model(x).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
torch.autograd.grad(model(x).sum(), list(model.parameters()))
