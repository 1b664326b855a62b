"""A GPU's memory runs short."""

from __future__ import annotations

from perftui import format as fmt
from perftui.diagnosis.model import Figure
from perftui.diagnosis.rule import Limits, Lost, Rule
from perftui.facts.fact import Facts, UnknownError
from perftui.facts.gpu import has_gpu
from perftui.facts.machine import machine_use
from perftui.facts.memory import peak_reserved
from perftui.facts.place import Place


def _pressure(facts: Facts) -> Lost | None:
    """It costs no time by itself, so its cost is 0: what is at stake is the run."""
    if has_gpu(facts) is False:
        return None
    host, reserved = machine_use(facts), peak_reserved(facts)
    if not host.memory:
        raise UnknownError(
            f"which of {fmt.several(host.cards, 'GPU')} the training uses is not known"
            if host.cards
            else "GPU memory was not sampled"
        )
    fullest = max(host.memory, key=lambda memory: memory.share)
    place = Place(rank=facts.rank_number)
    figures = [
        Figure.share("peak memory in use", fullest.share, PRESSURE.limits.warning, place),
        Figure("peak", fullest.peak, "B", place=place),
        Figure("total", fullest.total, "B", place=place),
    ]
    if reserved is not None:
        figures.append(Figure("reserved by PyTorch", reserved, "B", place=place))
    return Lost(
        0,
        None,
        f"GPU {fullest.device} has used {fmt.size(fullest.peak)} of its "
        f"{fmt.size(fullest.total)} ({fmt.percent(fullest.share)}): "
        "a larger batch or a longer sample may not fit.",
        tuple(figures),
        share=fullest.share,
    )


PRESSURE = Rule(
    id="memory-pressure",
    when="the GPU's memory is nearly used up",
    explanation=(
        "At its peak the GPU had little memory left: a longer sample or a larger batch ends the "
        "run. Activation checkpointing, lower precision or gradient accumulation take less."
    ),
    lost=_pressure,
    limits=Limits(
        0.90,
        0.97,
        "The TensorBoard plugin and TraceML warn at 90 %; beyond 97 % there is no room for one "
        "more allocation of the usual size.",
        of="of its memory",
    ),
    answer="activation checkpointing, lower precision, smaller batches",
)
