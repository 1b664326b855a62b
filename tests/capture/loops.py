"""One loop of each kind, in torch alone; ``run_loops.py`` runs them."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import torch
from loop_parts import (
    BATCH,
    DEVICE,
    STEPS,
    WIDTH,
    Models,
    learn,
    loader,
    loss_of,
    network,
    optimizer_of,
    trained,
)
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset, get_worker_info

Batches = Iterable[tuple[torch.Tensor]]


def plain() -> Models:
    return trained(loader())


def fork_workers() -> Models:
    return trained(loader(num_workers=2))


def spawn_workers() -> Models:
    return trained(loader(num_workers=1, multiprocessing_context="spawn"))


def persistent_workers() -> Models:
    batches = loader(STEPS // 3, num_workers=2, persistent_workers=True)
    return trained(batch for _ in range(3) for batch in batches)


class Sharded(IterableDataset[torch.Tensor]):
    def __iter__(self) -> Iterator[torch.Tensor]:
        info = get_worker_info()
        first, stride = (info.id, info.num_workers) if info else (0, 1)
        for n in range(first, STEPS * BATCH, stride):
            yield torch.full((WIDTH,), n / 100)


def workers_each_epoch() -> Models:
    """Forked when the GPU is in use already."""
    return trained(batch for _ in range(3) for batch in loader(STEPS // 3, num_workers=2))


def iterable(**options: Any) -> Models:
    return trained((x,) for x in DataLoader(Sharded(), BATCH, **options))


def iterable_workers() -> Models:
    return iterable(num_workers=2)


def made() -> Iterator[tuple[torch.Tensor]]:
    """Batches without a loader."""
    return ((torch.randn(BATCH, WIDTH),) for _ in range(STEPS))


def no_loader() -> Models:
    return trained(made())


def accumulation() -> Models:
    model = network()
    optimizer = optimizer_of(model)
    for n, (x,) in enumerate(loader(), 1):
        loss_of(model, x).backward()
        if n % 4 == 0:
            optimizer.step()
            optimizer.zero_grad()
    return (model,)


def accumulation_without_loader() -> Models:
    model = network()
    optimizer = optimizer_of(model)
    for _ in range(STEPS // 3):
        optimizer.zero_grad()
        for _ in range(3):
            loss_of(model, torch.randn(BATCH, WIDTH)).backward()
        optimizer.step()
    return (model,)


def pinned_pictures() -> Models:
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 4),
    ).to(DEVICE)
    pictures = TensorDataset(torch.rand(STEPS * BATCH, 3, 16, 16))
    batches = DataLoader(pictures, BATCH, True, num_workers=2, pin_memory=DEVICE == "cuda")
    return trained(((x.to(DEVICE, non_blocking=True),) for (x,) in batches), model)


def scaled_transformer() -> Models:
    layer = nn.TransformerEncoderLayer(WIDTH, 2, 2 * WIDTH, batch_first=True)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters())
    scaler = torch.amp.GradScaler(DEVICE)
    for (x,) in loader():
        optimizer.zero_grad()
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            loss = loss_of(model, x.unsqueeze(1)).float()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    return (model,)


def scaler(batches: Batches | None = None) -> Models:
    """Every fourth step is skipped, since its gradients are not finite."""
    model = network()
    optimizer = optimizer_of(model)
    scaler = torch.amp.GradScaler(DEVICE, init_scale=2.0**10)
    for n, (x,) in enumerate(batches or loader()):
        optimizer.zero_grad()
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            loss = loss_of(model, x).float()
        scaler.scale(loss * (float("inf") if n % 4 == 3 else 1)).backward()
        scaler.step(optimizer)
        scaler.update()
    return (model,)


def scaler_without_loader() -> Models:
    return scaler(made())


def adversarial(batches: Batches | None = None) -> Models:
    maker, judge = network(), network()
    first = torch.optim.Adam(maker.parameters())
    second = torch.optim.Adam(judge.parameters())
    for (batch,) in batches or loader():
        x = batch.to(DEVICE)
        second.zero_grad()
        (judge(x).mean() - judge(maker(x).detach()).mean()).backward()
        second.step()
        first.zero_grad()
        judge(maker(x)).mean().backward()
        first.step()
    return maker, judge


def adversarial_without_loader() -> Models:
    return adversarial(made())


def checkpointed() -> Models:
    from torch.utils.checkpoint import checkpoint

    model = network()
    optimizer = optimizer_of(model)
    for (x,) in made():
        learn(partial(checkpoint, model, use_reentrant=False), optimizer, x)
    return (model,)


def closure() -> Models:
    model = network()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)
    for (x,) in loader():

        def evaluate(x: torch.Tensor = x) -> torch.Tensor:
            optimizer.zero_grad()
            loss = loss_of(model, x)
            loss.backward()
            return loss

        optimizer.step(evaluate)
    return (model,)


def inference() -> Models:
    model = network().eval()
    with torch.inference_mode():
        for (x,) in loader():
            model(x.to(DEVICE))
    return (model,)


def decoding() -> Models:
    model = network().eval()
    with torch.no_grad():
        for _ in range(STEPS):
            model(torch.randn(BATCH, WIDTH).to(DEVICE))
    return (model,)


def evaluation() -> Models:
    model = network()
    optimizer = optimizer_of(model)
    for _ in range(2):
        for (x,) in loader(STEPS // 4):
            learn(model, optimizer, x)
        with torch.no_grad():
            for (x,) in loader(STEPS // 4):
                model(x.to(DEVICE))
    return (model,)


def compiled() -> Models:
    model = network()
    fast = torch.compile(model, backend="inductor" if DEVICE == "cuda" else "eager")
    optimizer = optimizer_of(model)
    for (x,) in loader():
        learn(fast, optimizer, x)
    return (model,)


def fused() -> Models:
    model = network()
    return trained(loader(), model, torch.optim.AdamW(model.parameters(), fused=True))


class Own(torch.optim.Optimizer):
    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters, {})

    @torch.no_grad()
    def step(self, *_: Any) -> None:
        for group in self.param_groups:
            for one in group["params"]:
                one.add_(one.grad, alpha=-0.05)


def own_optimizer() -> Models:
    model = network()
    return trained(loader(), model, Own(model.parameters()))


def by_hand(batches: Batches | None = None, optimized: bool = False) -> Models:
    model = network()
    # One that never steps.
    unused = optimizer_of(model) if optimized else None
    for (x,) in batches or loader():
        loss_of(model, x).backward()
        with torch.no_grad():
            for one in model.parameters():
                one.add_(one.grad, alpha=-0.05)
                one.grad = None
    del unused
    return (model,)


def by_hand_without_loader() -> Models:
    return by_hand(made())


def by_hand_beside_an_unused_optimizer() -> Models:
    return by_hand(optimized=True)


def in_backward() -> Models:
    """Each parameter has an optimizer of its own that steps as soon as its gradient is there."""
    model = network()
    optimizers = {one: torch.optim.SGD([one], lr=0.05) for one in model.parameters()}

    def step(one: torch.Tensor) -> None:
        optimizers[one].step()
        optimizers[one].zero_grad()

    for one in model.parameters():
        one.register_post_accumulate_grad_hook(step)
    for (x,) in loader():
        loss_of(model, x).backward()
    return (model,)


def own_profiler() -> Models:
    """Prints how often an operator came in each of its windows: all of them are whole."""
    from torch.profiler import ProfilerActivity, profile, schedule

    def count(profiler: Any) -> None:
        print([one.count for one in profiler.key_averages() if one.key == "aten::linear"])

    model = network()
    optimizer = optimizer_of(model)
    with profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=2, warmup=1, active=3, repeat=2),
        on_trace_ready=count,
    ) as profiler:
        for (x,) in loader():
            learn(model, optimizer, x)
            profiler.step()
    return (model,)


def own_ranges() -> Models:
    model = network()
    optimizer = optimizer_of(model)
    for (x,) in loader(80):
        with torch.profiler.record_function("the script's own"):
            learn(model, optimizer, x)
    return (model,)


def in_a_thread() -> Models:
    ended: list[Models] = []
    thread = threading.Thread(target=lambda: ended.append(plain()))
    thread.start()
    thread.join()
    return ended[0]


def in_a_thread_after_a_call() -> Models:
    network()(torch.randn(BATCH, WIDTH).to(DEVICE))
    return in_a_thread()


def fetched_in_a_thread() -> Models:
    """A thread fetches ahead, and lives as long as the training."""
    model = network()
    optimizer = optimizer_of(model)
    batches: queue.Queue[torch.Tensor] = queue.Queue(2)
    stop = threading.Event()

    def fetch() -> None:
        for (x,) in loader():
            batches.put(x)
        stop.wait()

    thread = threading.Thread(target=fetch)
    thread.start()
    for _ in range(STEPS):
        learn(model, optimizer, batches.get())
    stop.set()
    thread.join()
    return (model,)
