"""The loops of frameworks, each as its documentation has it; ``run_loops.py`` runs them."""

from __future__ import annotations

import tempfile
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch
from loop_parts import BATCH, DEVICE, STEPS, WIDTH, Models, loader, loss_of, network, optimizer_of
from torch import nn
from torch.utils.data import Dataset


def import_all() -> None:
    """Import all frameworks that are there, once for all loops: each takes seconds."""
    for framework, name in (
        ("lightning", "Trainer"),
        ("lightning.fabric", "Fabric"),
        ("accelerate", "Accelerator"),
        ("transformers", "Trainer"),
    ):
        if find_spec(framework.partition(".")[0]):
            getattr(import_module(framework), name)


def fabric() -> Models:
    from lightning.fabric import Fabric

    fabric = Fabric(accelerator=DEVICE, devices=1)
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
        accelerator=DEVICE,
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

    accelerator = Accelerator(cpu=DEVICE == "cpu", gradient_accumulation_steps=accumulate)
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
            use_cpu=DEVICE == "cpu",
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
