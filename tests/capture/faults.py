"""Trainings to which something happens, each in its own child: ``python faults.py [--alone]``.

Prints ``NAME PID WHAT CAME OF IT``; see ``run_loops.py``."""

from __future__ import annotations

import hashlib
import os
import resource
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from forked import in_children
from torch import nn
from torch.utils.data import DataLoader, Dataset

import perftui.agent

DEVICE = os.environ.get("TRAIN_ON", "cpu")
STEPS = 30
AGENT = str(Path(perftui.agent.__file__).parent)
AT = 15
"""The step in which it happens."""


class Data(Dataset[torch.Tensor]):
    """Ones; ``happens`` is called at the first item of a batch in the middle."""

    def __init__(self, happens: Callable[[], object]) -> None:
        self.happens = happens

    def __len__(self) -> int:
        return STEPS * 4

    def __getitem__(self, index: int) -> torch.Tensor:
        if index == AT * 4:
            self.happens()
        return torch.full((16,), 1.0)


class Hooked(torch.autograd.Function):
    """Does nothing, and calls ``happens`` in the backward pass."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, happens: Callable[[], object]) -> torch.Tensor:
        ctx.happens = happens
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        ctx.happens()
        return gradient, None


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(16, 16), nn.Dropout(), nn.Linear(16, 16))
        self.happens: Callable[[], object] = nothing

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.layers(x)
        self.happens()
        result: torch.Tensor = self.layers(x)
        return result


class Optimizer(torch.optim.SGD):
    happens: Callable[[], object]

    def step(self, *_: Any) -> None:
        self.happens()
        super().step()


def nothing() -> None:
    """It does not happen here."""


class Training:
    """Trains for ``STEPS`` steps; ``happens`` is called once, in ``phase`` of step ``AT``."""

    def __init__(self, phase: str, happens: Callable[[], object], workers: int = 0) -> None:
        self.phase = phase
        self.happens = happens
        self.model = Network().to(DEVICE)
        self.optimizer = Optimizer(self.model.parameters(), lr=0.01)
        self.steps = 0
        in_fetch = happens if phase == "fetch" else nothing
        self.batches = DataLoader(Data(in_fetch), 4, num_workers=workers)

    def _at(self, phase: str) -> Callable[[], object]:
        return self.happens if phase == self.phase and self.steps == AT else nothing

    def run(self) -> None:
        for x in self.batches:
            self.step(x)

    def step(self, x: torch.Tensor) -> None:
        self.optimizer.zero_grad()
        self.model.happens = self._at("forward")
        y = Hooked.apply(self.model(x.to(DEVICE)), self._at("backward"))
        y.pow(2).mean().backward()
        self.optimizer.happens = self._at("optimizer")
        self.optimizer.step()
        self._at("between")()
        self.steps += 1

    def go_on(self) -> None:
        """Train some more after it has happened."""
        self.phase = "never"
        for _ in range(STEPS):
            self.step(torch.ones(4, 16))

    def end(self) -> str:
        sha = hashlib.sha256(torch.get_rng_state().numpy().tobytes())
        for one in self.model.parameters():
            sha.update(one.detach().cpu().numpy().tobytes())
        return f"steps {self.steps} {sha.hexdigest()[:16]}"


def ended_by(error: type[BaseException], training: Training, told: Callable[[str], object]) -> str:
    """What came of a training that goes on after ``error``."""
    try:
        training.run()
    except error as raised:
        before = training.steps
        training.go_on()
        return f"{told(str(raised))} {before} {training.end()}"
    return "went past"


def interrupted_in(phase: str) -> str:
    training = Training(phase, lambda: os.kill(os.getpid(), signal.SIGINT))
    return ended_by(KeyboardInterrupt, training, lambda _: "interrupted")


def out_of_memory_in(phase: str) -> str:
    """The allocator is refused, since it asks for more than the process may have."""
    if DEVICE == "cpu":
        resource.setrlimit(resource.RLIMIT_AS, (1 << 36, 1 << 36))
    training = Training(phase, lambda: torch.empty(1 << 40, device=DEVICE))
    return ended_by(RuntimeError, training, lambda message: "allocate" in message)


def worker_that_raises() -> str:
    return ended_by(ValueError, Training("fetch", refuse, workers=2), lambda _: "raised")


def worker_that(dies: Callable[[], object]) -> str:
    """How far the training was, and as what it learns of it, differs from run to run."""
    training = Training("fetch", dies, workers=2)
    try:
        training.run()
    except (RuntimeError, OSError, EOFError):
        forget_workers()
        training.go_on()
        return f"died steps {training.steps}"
    return "went past"


def forget_workers() -> None:
    """torch raises anew, wherever the training is, for each signal that a worker is gone."""
    while True:
        try:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        except RuntimeError:
            continue
        return


NEXT = {"enter_fetch": "__next__", "leave_fetch": "step", "enter_backward": "_engine_run_backward"}
"""What runs in Python after hooks that are asked by ``around.c``: of torch, or of the training."""


class Interrupting:
    """Interrupts within the agent, where one of its functions, or one it calls, is called next.

    Or where it returns, which for compiled ones is "after": signals are seen nowhere else then, and
    after those that compiled code calls only where the next function begins."""

    def __init__(self, event: str, function: str, number: signal.Signals) -> None:
        next_one = NEXT.get(function) if event == "after" else None
        self.place = ("call", next_one) if next_one else (event, function)
        self.is_outside = next_one is not None
        self.number = number

    def __call__(self, frame: FrameType, event: str, called: object) -> None:
        place = event, frame.f_code.co_name
        if event == "c_return":
            place = "after", getattr(called, "__name__", "")
            # The code that calls it may seem to be torch's.
            is_ours = type(getattr(called, "__self__", None)).__name__ == "FastPath"
        else:
            is_ours = self.is_outside or self._is_of_agent(frame)
        if place == self.place and is_ours:
            sys.setprofile(None)
            os.kill(os.getpid(), self.number)

    @staticmethod
    def _is_of_agent(frame: FrameType) -> bool:
        return any(
            one and one.f_code.co_filename.startswith(AGENT) for one in (frame, frame.f_back)
        )


def out_of_time(*_: object) -> None:
    raise TimeoutError


def interrupted_in_the_agent(
    event: str,
    function: str,
    number: signal.Signals = signal.SIGINT,
    workers: int = 0,
    *,
    is_compiled: bool = False,
) -> str:
    signal.signal(signal.SIGALRM, out_of_time)
    if not is_compiled:
        # So that the slow path is taken.
        sys.modules["_perftui.agent.recording.recording"].Recording.knows_all = lambda _: False
    training = Training("never", nothing, workers)
    batches = iter(training.batches)
    for _ in range(AT):
        training.step(next(batches))
    try:
        sys.setprofile(Interrupting(event, function, number))
        training.step(next(batches))
    except (KeyboardInterrupt, TimeoutError):
        for x in batches:
            training.step(x)
        return f"interrupted {AT} steps {training.steps}"
    return "went past"


def refuse() -> None:
    raise ValueError("a bad item")


def fetch_whose_end_is_not_told() -> str:
    """The script goes on without a loader, in the handler of what ended the fetch."""

    def refuse_twice() -> None:
        sys.setprofile(Interrupting("call", "leave_fetch", signal.SIGALRM))
        refuse()

    signal.signal(signal.SIGALRM, out_of_time)
    training = Training("fetch", refuse_twice)
    try:
        training.run()
    except TimeoutError:
        training.go_on()
        return f"broken off steps {training.steps}"
    return "went past"


def segfault() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.kill(os.getpid(), signal.SIGSEGV)


HOOKS = (
    "enter_fetch",
    "leave_fetch",
    "enter_forward",
    "enter_backward",
    "leave",
    "enter_optimizer",
    "leave_optimizer",
)
"""The agent's own functions that a step calls."""

PHASES = ("fetch", "forward", "backward", "optimizer", "between")

FAULTS: dict[str, Callable[[], str]] = {
    **{f"interrupt-{phase}": lambda phase=phase: interrupted_in(phase) for phase in PHASES},
    **{f"memory-{phase}": lambda phase=phase: out_of_memory_in(phase) for phase in PHASES},
    **{
        f"agent-{event}-{hook}": lambda event=event, hook=hook: interrupted_in_the_agent(
            event, hook
        )
        for hook in HOOKS
        for event in ("call", "return")
    },
    **{
        f"agent-after-{hook}": lambda hook=hook: interrupted_in_the_agent(
            "after", hook, is_compiled=True
        )
        for hook in HOOKS
    },
    **{
        f"agent-alarm-{hook}": lambda hook=hook: interrupted_in_the_agent(
            "call", hook, signal.SIGALRM
        )
        for hook in HOOKS
    },
    "agent-alarm-qsize": lambda: interrupted_in_the_agent("call", "qsize", signal.SIGALRM, 2),
    "agent-alarm-compiled-qsize": lambda: interrupted_in_the_agent(
        "call", "qsize", signal.SIGALRM, 2, is_compiled=True
    ),
    "agent-fetch-not-told": fetch_whose_end_is_not_told,
    "worker-exits": lambda: worker_that(lambda: os._exit(9)),
    "worker-raises": worker_that_raises,
    "worker-segfaults": lambda: worker_that(segfault),
}


def happen(name: str) -> None:
    torch.manual_seed(0)
    print(name, os.getpid(), FAULTS[name](), flush=True)


if __name__ == "__main__":
    is_alone = sys.argv[1:] == ["--alone"]
    in_children([name for name in FAULTS if not (is_alone and name.startswith("agent-"))], happen)
