"""Fixes that change how the whole model computes, by a line before the training loop."""

from __future__ import annotations

from collections.abc import Sequence

from perftui.fixes.fix import line_fix
from perftui.fixes.line_change import script_with_finding
from perftui.fixes.model import Risk
from perftui.fixes.source.edits import Edit, insert_before_training
from perftui.script.names import module_name
from perftui.script.program import PatchRefusedError, Program
from perftui.script.training import mentions, model_name, step_loop

_COMPILED = ("compile", "script", "trace", "make_graphed_callables")


def compiled(program: Program, _: int) -> Sequence[Edit]:
    """``model.compile()`` before the training loop: in place, so that names of its state stay."""
    line = mentions(program, *_COMPILED)
    if line is not None:
        raise PatchRefusedError(f"line {line} already compiles something")
    model = model_name(program, step_loop(program))
    return (insert_before_training(program, model, f"{model}.compile()"),)


def channels_last(program: Program, _: int) -> Sequence[Edit]:
    """The weights of the model with channels last: convolutions bring what they are given into
    that order once."""
    line = mentions(program, "channels_last", "memory_format")
    if line is not None:
        raise PatchRefusedError(f"line {line} already sets a memory format")
    model, torch = model_name(program, step_loop(program)), module_name(program, "torch")
    text = f"{model}.to(memory_format={torch}.channels_last)"
    return (insert_before_training(program, model, text),)


COMPILE = line_fix(
    id="compile",
    what="compile the model",
    explanation=(
        "torch.compile fuses small operators and launches fewer kernels. On the CPU it needs a "
        "C++ compiler. Compiling takes seconds to minutes at the start, and again for each new "
        "size."
    ),
    at=script_with_finding,
    rules=("launch-bound", "memory-bound-elementwise"),
    title="model compiled",
    plan=compiled,
    advice="model.compile() before the training loop",
    risks=(Risk.START, Risk.NUMERICS, Risk.MEMORY),
)

CHANNELS_LAST = line_fix(
    id="channels-last",
    what="keep images and weights in channels-last layout",
    explanation=(
        "Convolutions compute in the layout that tensor cores need, without converting tensors "
        "before and after each. Code that calls view() on an image may raise an error."
    ),
    at=script_with_finding,
    rules=("layout-conversion",),
    title="channels last",
    plan=channels_last,
    advice="model.to(memory_format=torch.channels_last) before the training loop",
    risks=(Risk.NUMERICS,),
)
