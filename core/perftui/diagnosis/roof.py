"""What a busy GPU reaches of its card, in words: whether that is good, and what could be saved."""

from __future__ import annotations

from perftui import format as fmt
from perftui.analysis.kernels.category import MEMORY_BOUND, Category
from perftui.diagnosis.model import Figure
from perftui.facts.fact import Facts, NotApplicableError, UnknownError
from perftui.facts.gpu.roofline import Roofline, roofline
from perftui.trace.model import TraceError

LEAST_REACHED = 0.5
"""Share of the card's rates from which its kernels are good: at most twice as fast can be had. Of
the arithmetic alone, and over whole steps, good trainings reach 46 % (PaLM), 38 to 43 % (Llama 3)
and 55 % (MegaScale); their matrix products 70 to 95 % (CUTLASS), elementwise kernels 80 to 90 % of
the bandwidth."""

LEAST_KNOWN = 0.75
"""Share of the kernels' time for which that has to be known: no sizes are recorded of optimizers
that take lists of tensors, which take up to a seventh of good trainings."""

LEAST_OF_KIND, MUCH = 0.25, 0.2
"""What a kind of work with so much of the kernels' time has to reach: FlashAttention-2 reaches
35 % of an H100 and 50 to 73 % of an A100, FlashAttention-3 75 %; a good training with only 1,024
positions reached a quarter."""

TOLD_FROM = 0.05
"""Share of the kernels' time from which a saving is told."""


def known_roofline(facts: Facts) -> tuple[Roofline | None, str]:
    """What the kernels reach of the card, or why that is not known."""
    try:
        found = roofline(facts)
    except (UnknownError, NotApplicableError, TraceError) as error:
        return None, str(error)
    return (found, "") if found.roofed else (None, "no roof of any kernel is known")


def check_reach(facts: Facts) -> None:
    """Whether a busy GPU is used well. Unknown if its kernels are far below what the card can do,
    or where that is not known."""
    used, why = known_roofline(facts)
    if used is None:
        raise UnknownError(f"how well the kernels use the card is not known: {why}")
    if used.known < LEAST_KNOWN:
        known = fmt.percent(used.known)
        raise UnknownError(f"how well they use the card is known for {known} of the kernels' time")
    if used.reached < LEAST_REACHED:
        raise UnknownError(f"the kernels reach {share_of(used)}")
    for kind in used.kinds:
        share = kind.time / used.whole
        if share >= MUCH and kind.reached < LEAST_OF_KIND:
            raise UnknownError(
                f"{kind.category.value} takes {fmt.percent(share)} of the kernels' time and "
                f"reaches {fmt.percent(kind.reached)} of the card's rates"
            )


def use_of_card(used: Roofline, computing: int) -> str:
    """What the kernels reach of the card, and what they would take less at its rates of a step
    that computes for so many ns, the largest savings first."""
    said = f" They reach {share_of(used)}"
    if used.known < LEAST_KNOWN:
        said += f", as far as that is known ({fmt.percent(used.known)} of their time)"
    saved = [kind for kind in used.kinds if kind.saved >= TOLD_FROM * used.whole]
    if not saved:
        return f"{said}."
    # Kinds of work that run side by side sum to more than the kernels' time.
    whole = max(used.whole, sum(kind.time for kind in used.kinds))
    savings = (
        f"{fmt.duration(computing * kind.saved // whole)}{less} in "
        f"{kind.category.value} (reaches {fmt.percent(kind.reached)})"
        for kind, less in zip(saved, (" less", "", ""), strict=False)
    )
    worst = saved[0].worst
    reached = f"{fmt.percent(worst.reached)} of the card's {worst.bound} rate"
    if used.card.is_measured:
        reached = reached.replace("card's ", "") + " that perftui probe measured"
    elif of_measured := worst.reached_of_measured:
        reached += f", {fmt.percent(of_measured)} of the measured one"
    said += f"; at the full rates up to {', '.join(savings)}."
    # Without biases, weights and sums of single channels.
    sizes = " ".join(size for size in worst.sizes.split() if "x" in size) or worst.sizes
    return f"{said} {worst.operator} of {sizes} reaches {reached}."


_TO_DO = {
    Category.ATTENTION: "take the fastest path of scaled_dot_product_attention: is_causal=True in "
    "place of a mask, 16 bits, heads as wide as a multiple of 8",
    Category.GEMM: "make products larger: larger batches, projections joined into one, sizes in "
    "multiples of 64; use 16 bits",
    Category.CONVOLUTION: "use memory_format=torch.channels_last, 16 bits and cudnn.benchmark",
    Category.LAYOUT: "use memory_format=torch.channels_last for model and input",
    Category.OPTIMIZER: "pass fused=True to the optimizer",
    **dict.fromkeys(
        MEMORY_BOUND, "fuse these kernels by torch.compile, or use the fused functions of torch"
    ),
}


def advice(used: Roofline | None) -> str:
    """What makes the kind of work faster that would save most; empty where that is not known."""
    worth = [kind for kind in used.kinds if kind.saved >= TOLD_FROM * used.whole] if used else []
    return _TO_DO.get(worth[0].category, "") if worth else ""


def share_of(used: Roofline) -> str:
    """``62 % of the card's rates``."""
    rates = "the rates that perftui probe measured" if used.card.is_measured else "the card's rates"
    return f"{fmt.percent(used.reached)} of {rates}"


def reach_figures(used: Roofline) -> tuple[Figure, ...]:
    """What the kernels reach together, and each kind of work."""
    return (
        Figure.share("of the card's rates", used.reached, LEAST_REACHED),
        Figure.share("of the kernels' time known for that", used.known, LEAST_KNOWN),
        *(Figure.share(f"{kind.category.value} reaches", kind.reached) for kind in used.kinds),
    )
