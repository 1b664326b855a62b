"""Batches of token ids that are mostly padding, which the model computes on."""

from __future__ import annotations

import re

from perftui import format as fmt
from perftui.analysis.model import TraceAnalysis
from perftui.diagnosis.model import Figure
from perftui.diagnosis.rule import Limits, Lost, rule
from perftui.facts.data_loader.batch_place import batch_place
from perftui.facts.fact import Facts, NotApplicableError, UnknownError, notes_of, trace_fact
from perftui.facts.source.operator_lines import line_place
from perftui.facts.source.source_calls import matching_line
from perftui.facts.step.judged_step import judged_step

FEWEST_BATCHES = 2

_NAMES = ("rows", "tokens", "padded", "spare")
"""Of each batch, up to a limit of rows; ``spare`` is padding beyond its longest row, which would be
saved by padding to that."""

_SKIP = re.compile(
    r"^(aten|torch|nested|jagged|flash_attn\w*)::.*(_pack_padded_sequence|nested|jagged|varlen)"
    r"|flash_attn_varlen|FlashAttnVarlen"
)
"""Operators that compute on rows of different lengths."""

_SKIPS = r"\bpack_(padded_)?sequence\b|\bnested_tensor|\bvarlen|_varlen"


@trace_fact
def _skips_in_trace(analysis: TraceAnalysis) -> bool:
    return any(_SKIP.search(name) for name in analysis.trace.names)


LEAST = 0.25
"""Share of padding from which it is reported: batches of unsorted texts, padded to the longest of
each, often have as much."""

_PADS = (
    r"max_length|\bpadding=[\"'T]|\bpad_sequence|\bF\.pad\b|functional\.pad\b"
    r"|\b(full|zeros|ones)\(\(?\s*len\(\w+\),"
)


@rule(
    when="the training computes on batches of token ids that are mostly padding",
    limits=Limits("It is an estimate.", 0.20, 0.50, info=0.10),
    answer=(
        'pad to the longest row of each batch (padding="longest"), group rows of similar length, '
        "or pack several"
    ),
)
def padding_waste(facts: Facts) -> Lost | None:
    """A mask changes the result, not the work. A few batches are checked. The cost is the share of
    padding in all computation: attention loses more, embeddings less."""
    notes = notes_of(facts.events, "padding")
    read = [[note[name] for name in _NAMES if isinstance(note.get(name), int)] for note in notes]
    # Another version may have written another form.
    batches = [row for row in read if len(row) == len(_NAMES)]
    rows, tokens, padded, spare = (sum(row[at] for row in batches) for at in range(len(_NAMES)))
    if not tokens:
        raise NotApplicableError
    if len(batches) < FEWEST_BATCHES:
        raise UnknownError("only a single batch was checked for padding")
    share = padded / tokens
    if share < LEAST:
        return None
    if _skips_in_trace.or_none(facts) or matching_line(facts, _SKIPS) is not None:
        raise UnknownError("packed or nested sequences skip some of the computation on padding")
    judged = judged_step(facts)
    cost = round(share * judged.computing)
    return Lost(
        cost,
        judged.of,
        f"{fmt.percent(share)} of the tokens in a batch are padding: about "
        f"{fmt.duration(cost)} of each {fmt.duration(judged.of.mean)} step is spent on it.",
        (
            Figure.share("of the tokens are padding", share, LEAST),
            Figure.share("beyond the longest row of each batch", spare / tokens),
            Figure("tokens in a row", round(tokens / rows), "count"),
            Figure("of them not padding", round((tokens - padded) / rows), "count"),
            Figure("batches checked", len(batches), "count"),
            Figure("computing", judged.computing, "ns"),
        ),
        place=line_place(facts, matching_line(facts, _PADS, only=True)) or batch_place(facts),
        parts=judged.names(computes=True),
        unproven="whether the model computes padding",
    )
