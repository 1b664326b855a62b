"""How much of a batch is padding, as its bytes tell, and as a training notes it."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from perftui.agent.dataloader.padding import (
    FEWEST_VALUES,
    MOST_ALIKE,
    Padding,
    nearly_empty,
    padding_of_batch,
    padding_of_ids,
    padding_of_mask,
)
from tests.core.agent.conftest import Train

if TYPE_CHECKING:
    import torch

Texts = list[list[int]]


def arrays(rows: Texts, code: str = "q") -> list[array[int]]:
    return [array(code, row) for row in rows]


def run_at_end(row: list[int]) -> int:
    run = 0
    while run < len(row) and row[-1 - run] == row[-1]:
        run += 1
    return run if run > 1 else 0


def obvious_runs(rows: Texts) -> list[int]:
    values = {row[-1] for row in rows if run_at_end(row)}
    return [run_at_end(row) if len(values) == 1 else 0 for row in rows]


def obvious(rows: Texts) -> Padding:
    """Value by value; rows are turned round to look at their beginnings."""
    turned = [row[::-1] for row in rows]
    ends, begins = obvious_runs(rows), obvious_runs(turned)
    runs, rows = (begins, turned) if sum(begins) > sum(ends) else (ends, rows)
    count, length = len(rows), len(rows[0])
    padded = [run for run in runs if run]
    kept = [value for row, run in zip(rows, runs, strict=True) for value in row[: length - run]]
    pads = [row[-1] for row, run in zip(rows, runs, strict=True) if run]
    is_text = (
        bool(padded)
        and max(Counter(padded).values()) <= MOST_ALIKE * len(padded)
        and pads[0] >= 0
        and kept.count(pads[0]) <= count
        and len(set(kept)) >= FEWEST_VALUES
        and min(kept) >= 0
    )
    if not is_text:
        runs = [0] * count
    return Padding(count, count * length, sum(runs), count * min(runs))


@st.composite
def batches(draw: st.DrawFn) -> Texts:
    """Rows of few different values, some with padding at one side."""
    length, count = draw(st.integers(2, 20)), draw(st.integers(1, 8))
    pad, is_left = draw(st.sampled_from([0, 1, -1])), draw(st.booleans())
    rows = []
    for _ in range(count):
        text = draw(st.lists(st.integers(-1 if draw(st.booleans()) else 1, 30), max_size=length))
        padding = [pad] * (length - len(text))
        rows.append(padding + text if is_left else text + padding)
    return rows


@pytest.mark.slow
@example([[5, 5, 5, 5]] * 3)
@given(batches())
def test_runs_are_found_as_one_would_count_them(rows: Texts) -> None:
    assert padding_of_ids(arrays(rows)) == obvious(rows)
    assert padding_of_ids(arrays(rows, "i")) == obvious(rows)


@given(st.lists(st.integers(0, 12), min_size=1, max_size=8))
def test_a_mask_tells_it_exactly(lengths: list[int]) -> None:
    rows = [[1] * length + [0] * (12 - length) for length in lengths]
    padded = 12 * len(rows) - sum(lengths)
    spare = len(rows) * (12 - max(lengths))
    told = Padding(len(rows), 12 * len(rows), padded, spare) if min(lengths) else None
    assert padding_of_mask(arrays(rows)) == told
    assert padding_of_mask(arrays(rows, "B")) == told


@pytest.mark.parametrize("row", [[0, 1, 1], [1, 0, 1], [1, 2, 0], [0, 0, 0]])
def test_what_is_no_mask_of_padding_at_the_end_is_none(row: list[int]) -> None:
    assert padding_of_mask(arrays([[1, 1, 1], row])) is None


def of(*tensors: torch.Tensor) -> Padding | None:
    import torch

    seen = padding_of_batch(torch, tensors)
    return seen.padding if seen else None


def texts(count: int = 32, length: int = 64, longest: int = 40) -> torch.Tensor:
    import torch

    made = torch.zeros(count, length, dtype=torch.long)
    for number, row in enumerate(made):
        end = 5 + number * 7 % (longest - 4)
        row[:end] = torch.randint(1, 5000, (end,))
    return made


def test_targets_that_losses_ignore_are_counted() -> None:
    import torch

    targets = torch.full((32, 64), -100)
    targets[:, :8] = 7
    seen = padding_of_batch(torch, {"ids": texts(), "labels": targets})
    assert seen is not None
    assert (seen.targets, seen.ignored) == (32 * 64, 32 * 56)


def share(*tensors: torch.Tensor) -> float:
    told = of(*tensors)
    return told.padded / told.tokens


def test_texts_are_seen_to_be_padded_at_either_end() -> None:
    padded = texts()
    told = of(padded)
    assert (told.tokens, told.padded) == (32 * 64, int((padded == 0).sum()))
    assert told.spare == 32 * (64 - int((padded > 0).sum(1).max()))
    assert of(padded.flip(1)) == told
    assert of(padded[:, :63]) is not None
    assert of(padded.t().contiguous().t()) is None


def test_a_text_that_ends_with_what_pads_it_is_padded() -> None:
    """As GPT-2 is fed: the end of a text is the only special token."""
    ids = texts()
    ends = (ids > 0).sum(1)
    assert share(ids) == pytest.approx(1 - float(ends.sum()) / ids.numel())


def table(torch: Any, rows: int = 256) -> torch.Tensor:
    """Categories of few and many values, the last columns rare flags."""
    many = torch.randint(0, 1000, (rows, 6))
    return torch.cat([many, (torch.rand(rows, 10) < 0.01).long()], 1)


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param(lambda torch: torch.randint(0, 5000, (64, 128)), id="random"),
        pytest.param(lambda torch: torch.randint(0, 26, (64, 64)), id="characters"),
        pytest.param(table, id="rare flags"),
        pytest.param(lambda torch: torch.randint(0, 9, (64, 20)), id="categories"),
        pytest.param(lambda torch: torch.eye(64, dtype=torch.long), id="one-hot"),
        pytest.param(lambda torch: torch.tril(torch.ones(64, 64, dtype=torch.long)), id="flags"),
        pytest.param(lambda torch: torch.where(texts() > 0, texts(), -100), id="labels"),
        pytest.param(lambda torch: torch.zeros(64, 64, dtype=torch.long), id="zeros"),
        pytest.param(
            lambda torch: torch.nn.functional.pad(torch.randint(0, 255, (64, 40)), (12, 12)),
            id="images with borders",
        ),
        pytest.param(lambda torch: torch.randint(0, 40, (64,)).expand(64, -1), id="the same row"),
    ],
)
def test_rows_that_are_no_padded_text_have_no_padding(
    torch: Any, rows: Callable[[Any], Any]
) -> None:
    for seed in range(5):
        torch.manual_seed(seed)
        assert share(rows(torch)) < 0.05


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(lambda ids: ids.byte(), id="bytes"),
        pytest.param(lambda ids: ids.float(), id="floats"),
        pytest.param(lambda ids: ids[0], id="one text"),
        pytest.param(lambda ids: ids[:3], id="few"),
        pytest.param(lambda ids: ids[:0], id="none"),
        pytest.param(lambda ids: ids[:, :7], id="short"),
        pytest.param(lambda ids: ids.to("meta"), id="meta"),
        pytest.param(lambda ids: ids.to_sparse(), id="sparse"),
        pytest.param(lambda ids: ids.as_subclass(type("Own", (type(ids),), {})), id="a subclass"),
    ],
)
def test_other_tensors_are_not_read(other: Callable[[Any], Any]) -> None:
    assert of(texts()) is not None
    assert of(other(texts())) is None


def test_a_tensor_whose_memory_is_gone_is_not_read() -> None:
    gone = texts()
    gone.untyped_storage().resize_(0)
    assert of(gone) is None


TRAINING = """
import sys, torch
from torch import nn
from torch.utils.data import DataLoader
torch.manual_seed(0)

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.head = nn.Embedding(3000, 8), nn.Linear(8, 2)
    def forward(self, ids, label=None):
        return self.head(self.words(ids).mean(1))

def batch(samples):
    ids = torch.zeros(len(samples), 64, dtype=torch.long)
    for row, length in enumerate(samples):
        ids[row, :length] = torch.randint(1, 3000, (length,))
    return {{"ids": ids, "label": torch.ones(len(samples), dtype=torch.long)}}

lengths = [5 + number * 7 % 23 for number in range(16 * 40)]
loader = DataLoader(lengths, 16, collate_fn=batch)
model = Model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for given in {batches}:
    loss = nn.functional.cross_entropy(model({call}), given["label"])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item(), torch.rand(1).item())
"""
WITHOUT_LOADER = "(batch(lengths[at : at + 16]) for at in range(0, len(lengths), 16))"


@pytest.mark.subprocess
@pytest.mark.parametrize(
    ("batches", "call", "key"),
    [
        ("loader", "given['ids']", "ids"),
        (WITHOUT_LOADER, "ids=given['ids']", "ids"),
        (WITHOUT_LOADER, "given['ids']", ""),
        ("(loader.collate_fn([*b]) for b in DataLoader(lengths, 16))", "given['ids']", ""),
    ],
    ids=["loader", "named", "positional", "made of what the loader gives"],
)
def test_a_training_notes_a_few_of_its_batches(
    unnoticed: Train, batches: str, call: str, key: str
) -> None:
    run = unnoticed(TRAINING.format(batches=batches, call=call), options={"profile": False})
    assert run.notes("error") == []
    notes = run.notes("padding")
    assert 3 <= len(notes) <= 6
    for note in notes:
        assert (note["key"], note["length"], note["rows"], note["tokens"]) == (key, 64, 16, 1024)
        assert note["padded"] == pytest.approx(1024 - 16 * 16, rel=0.1)
        assert note["spare"] == pytest.approx(16 * (64 - 27), rel=0.1)


def test_large_matrices_of_zeros_are_noted_unless_a_weight_has_their_size() -> None:
    import torch

    graph = torch.eye(600)
    model = torch.nn.Linear(4, 4)
    model.register_buffer("near", torch.eye(512, 700))
    given = ((graph, torch.rand(600, 600), torch.eye(64), graph[:, ::2]), {"mask": graph.double()})
    found = nearly_empty(torch, model, given)
    sizes = [(note["rows"], note["columns"], note["read"]) for note in found]
    assert sizes == [(600, 600, 512), (600, 600, 512), (512, 700, 512)]
    assert all(note["zeros"] >= 500 for note in found)
    assert nearly_empty(torch, torch.nn.Linear(600, 600), given) == []
