"""One loop of each kind, and what each prints of its end.

``python loops.py NAME...`` runs each loop in a child of its own (a process has one history), and
prints ``NAME PID DIGEST`` for each: the digest is of all weights and of the random state.
"""

from __future__ import annotations

import atexit
import hashlib
import importlib
import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset, get_worker_info

STEPS = 24
BATCH = 4
WIDTH = 16

Models = tuple[nn.Module, ...]


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Dropout(), nn.Linear(WIDTH, WIDTH))


def loader(steps: int = STEPS, **options: Any) -> DataLoader[Any]:
    return DataLoader(TensorDataset(torch.randn(steps * BATCH, WIDTH)), BATCH, True, **options)


def optimizer_of(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.05)


def loss_of(model: Any, x: torch.Tensor) -> torch.Tensor:
    loss: torch.Tensor = model(x).pow(2).mean()
    return loss


def learn(model: Any, optimizer: torch.optim.Optimizer, x: torch.Tensor) -> None:
    optimizer.zero_grad()
    loss_of(model, x).backward()
    optimizer.step()


def with_loader(**options: Any) -> Models:
    model = network()
    optimizer = optimizer_of(model)
    for (x,) in loader(**options):
        learn(model, optimizer, x)
    return (model,)


def plain() -> Models:
    return with_loader()


def fork_workers() -> Models:
    return with_loader(num_workers=2)


def spawn_workers() -> Models:
    return with_loader(num_workers=1, multiprocessing_context="spawn")


def persistent_workers() -> Models:
    model = network()
    optimizer = optimizer_of(model)
    batches = loader(STEPS // 3, num_workers=2, persistent_workers=True)
    for _ in range(3):
        for (x,) in batches:
            learn(model, optimizer, x)
    return (model,)


class Sharded(IterableDataset[torch.Tensor]):
    def __iter__(self) -> Iterator[torch.Tensor]:
        info = get_worker_info()
        first, stride = (info.id, info.num_workers) if info else (0, 1)
        for n in range(first, STEPS * BATCH, stride):
            yield torch.full((WIDTH,), n / 100)


def iterable(**options: Any) -> Models:
    model = network()
    optimizer = optimizer_of(model)
    for x in DataLoader(Sharded(), BATCH, **options):
        learn(model, optimizer, x)
    return (model,)


def iterable_workers() -> Models:
    return iterable(num_workers=2)


def no_loader() -> Models:
    model = network()
    optimizer = optimizer_of(model)
    for _ in range(STEPS):
        learn(model, optimizer, torch.randn(BATCH, WIDTH))
    return (model,)


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


def scaler() -> Models:
    """Every fourth step is skipped, since its gradients are not finite."""
    model = network()
    optimizer = optimizer_of(model)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
    for n, (x,) in enumerate(loader()):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = loss_of(model, x).float()
        scaler.scale(loss * (float("inf") if n % 4 == 3 else 1)).backward()
        scaler.step(optimizer)
        scaler.update()
    return (model,)


def adversarial() -> Models:
    maker, judge = network(), network()
    first = torch.optim.Adam(maker.parameters())
    second = torch.optim.Adam(judge.parameters())
    for (x,) in loader():
        second.zero_grad()
        (judge(x).mean() - judge(maker(x).detach()).mean()).backward()
        second.step()
        first.zero_grad()
        judge(maker(x)).mean().backward()
        first.step()
    return maker, judge


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
            model(x)
    return (model,)


def decoding() -> Models:
    model = network().eval()
    with torch.no_grad():
        for _ in range(STEPS):
            model(torch.randn(BATCH, WIDTH))
    return (model,)


def evaluation() -> Models:
    model = network()
    optimizer = optimizer_of(model)
    for _ in range(2):
        for (x,) in loader(STEPS // 4):
            learn(model, optimizer, x)
        with torch.no_grad():
            for (x,) in loader(STEPS // 4):
                model(x)
    return (model,)


def compiled() -> Models:
    model = network()
    fast = torch.compile(model, backend="eager")
    optimizer = optimizer_of(model)
    for (x,) in loader():
        learn(fast, optimizer, x)
    return (model,)


def fused() -> Models:
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    for (x,) in loader():
        learn(model, optimizer, x)
    return (model,)


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
    optimizer = Own(model.parameters())
    for (x,) in loader():
        learn(model, optimizer, x)
    return (model,)


def by_hand() -> Models:
    model = network()
    for (x,) in loader():
        loss_of(model, x).backward()
        with torch.no_grad():
            for one in model.parameters():
                one.add_(one.grad, alpha=-0.05)
                one.grad = None
    return (model,)


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
    trained: list[Models] = []
    thread = threading.Thread(target=lambda: trained.append(plain()))
    thread.start()
    thread.join()
    return trained[0]


def fabric() -> Models:
    from lightning.fabric import Fabric

    fabric = Fabric(accelerator="cpu", devices=1)
    model = network()
    wrapped, optimizer = fabric.setup(model, optimizer_of(model))
    for (x,) in fabric.setup_dataloaders(loader()):
        optimizer.zero_grad()
        fabric.backward(loss_of(wrapped, x))
        optimizer.step()
    return (model,)


def lightning(accumulate: int = 1) -> Models:
    import lightning

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.network = network()

        def training_step(self, batch: Any, _: int) -> torch.Tensor:
            return loss_of(self.network, batch[0])

        def validation_step(self, batch: Any, _: int) -> None:
            self.network(batch[0])

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return optimizer_of(self)

    module = Module()
    trainer = lightning.Trainer(
        max_epochs=1,
        accelerator="cpu",
        devices=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        accumulate_grad_batches=accumulate,
    )
    trainer.fit(module, loader(), loader(STEPS // 2))
    return (module,)


def lightning_accumulation() -> Models:
    return lightning(4)


def accelerate(accumulate: int = 1) -> Models:
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=accumulate)
    model = network()
    wrapped, optimizer, batches = accelerator.prepare(model, optimizer_of(model), loader())
    for (x,) in batches:
        with accelerator.accumulate(wrapped):
            accelerator.backward(loss_of(wrapped, x))
            optimizer.step()
            optimizer.zero_grad()
    return (model,)


def accelerate_accumulation() -> Models:
    return accelerate(4)


class Rows(Dataset[dict[str, torch.Tensor]]):
    def __init__(self, length: int) -> None:
        self.x = torch.randn(length, WIDTH)

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"x": self.x[index]}


class WithLoss(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.network = network()

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        logits = self.network(x)
        return {"loss": logits.pow(2).mean(), "logits": logits}


def hugging_face(accumulate: int = 1) -> Models:
    from transformers import Trainer, TrainingArguments

    model = WithLoss()
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            per_device_train_batch_size=BATCH,
            per_device_eval_batch_size=BATCH,
            num_train_epochs=1,
            report_to=[],
            use_cpu=True,
            gradient_accumulation_steps=accumulate,
            eval_strategy="epoch",
            save_strategy="no",
            logging_strategy="no",
            disable_tqdm=True,
        )
        rows, half = Rows(STEPS * BATCH), Rows(STEPS * BATCH // 2)
        Trainer(model=model, args=arguments, train_dataset=rows, eval_dataset=half).train()
    return (model,)


def hugging_face_accumulation() -> Models:
    return hugging_face(4)


def digest(models: Models) -> str:
    """Of all weights and of the random state."""
    sha = hashlib.sha256(torch.get_rng_state().numpy().tobytes())
    for model in models:
        for one in model.state_dict().values():
            sha.update(one.detach().numpy().tobytes())
    return sha.hexdigest()[:16]


def run(name: str) -> None:
    torch.manual_seed(0)
    print(name, os.getpid(), digest(globals()[name]()), flush=True)


def main() -> None:
    torch.set_num_threads(1)
    # Once for all: the first optimizer imports it, which takes a second.
    importlib.import_module("torch._dynamo")
    for name in sys.argv[1:]:
        child = os.fork()
        if child == 0:
            try:
                run(name)
            finally:
                # The end of an interpreter without its half second of tidying up.
                atexit._run_exitfuncs()
            os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code:
            print(name, child, f"failed: {code}", flush=True)


if __name__ == "__main__":
    main()
