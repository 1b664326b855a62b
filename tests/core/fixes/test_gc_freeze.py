"""Where ``gc.freeze()`` is written: before the loop that trains."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perftui.facts.fact import Facts
from perftui.fixes.fix import option
from perftui.fixes.model import FixOption, Risk
from perftui.fixes.script_overhead import FREEZE, frozen
from perftui.run.columns import EVENT_COLUMNS
from perftui.run.table import GrowingTable
from perftui.script.program import PatchRefusedError
from tests.core.diagnosis.runs import event_table
from tests.core.diagnosis.script_runs import Seen, stacks_of
from tests.core.diagnosis.test_slow_steps import collecting
from tests.core.fixes.test_line_changes import TRAIN, changed

HEAD = "import gc  # here\n"


def written(source: str) -> str:
    return changed(frozen, HEAD + source).removeprefix("import gc\n")


def test_it_comes_before_the_outermost_loop_of_the_training() -> None:
    source = "for epoch in range(9):\n    for x in loader:\n        TRAIN\n"
    assert written(source) == "gc.freeze()\n" + source.replace("TRAIN", TRAIN)


def test_comments_stay_with_the_loop_and_blank_lines_before_it() -> None:
    source = "def f():\n    pass\n\n\n# Train.\nfor x in loader:\n    TRAIN\n"
    assert written(source).startswith(
        "def f():\n    pass\n\n\ngc.freeze()\n# Train.\nfor x in loader:\n"
    )


def test_the_first_statement_of_a_function() -> None:
    source = "def fit(model, loader):\n    for x in loader:\n        TRAIN\n"
    assert "def fit(model, loader):\n    gc.freeze()\n    for x in loader:\n" in written(source)


def test_the_loop_over_epochs_in_another_function() -> None:
    source = """
class Trainer:
    def epoch(self):
        for x in self.loader:
            TRAIN

    def fit(self):
        for number in range(9):
            self.epoch()
"""
    assert "    def fit(self):\n        gc.freeze()\n        for number" in written(source)


def test_not_before_the_set_up_of_what_is_trained() -> None:
    source = """
def main(seed):
    optimizer = SGD(model.parameters())
    for x in loader:
        TRAIN

for seed in range(9):
    main(seed)
"""
    assert "    gc.freeze()\n    for x in loader:" in written(source)


def test_a_closure_is_followed() -> None:
    source = """
for x in loader:
    def closure():
        loss = model(x)
        loss.backward()
        return loss
    optimizer.step(closure)
"""
    assert written(source).startswith("\ngc.freeze()\nfor x in loader:")


@pytest.mark.parametrize(
    ("head", "after", "name"),
    [
        ("import torch  # here\n", "import torch\nimport gc\n", "gc.freeze"),
        ("from gc import collect  # here\n", "from gc import collect\nimport gc\n", "gc.freeze"),
        ("from gc import freeze  # here\n", "from gc import freeze\n", "freeze"),
        ("import gc as garbage  # here\n", "import gc as garbage\n", "garbage.freeze"),
    ],
)
def test_the_import_is_added_where_it_lacks(head: str, after: str, name: str) -> None:
    loop = "for x in loader:\n    TRAIN\n"
    wanted = f"{after}{name}()\n" + loop.replace("TRAIN", TRAIN)
    assert changed(frozen, head + loop) == wanted


REFUSED = {
    "nothing trains": ("for x in y:\n    f(x)\n", "runs backward"),
    "no loop": ("TRAIN\n", "outside of the file's loops"),
    "two loops": ("for x in y:\n    TRAIN\nfor x in z:\n    TRAIN\n", "2 loops of the file"),
    "frozen already": ("gc.freeze()\nfor x in y:\n    TRAIN\n", "already"),
    "a name of one's own": ("gc = mine\nfor x in y:\n    TRAIN\n", "certainly gives gc"),
}


@pytest.mark.parametrize(("source", "why"), REFUSED.values(), ids=REFUSED)
def test_what_is_not_certain_is_refused(source: str, why: str) -> None:
    with pytest.raises(PatchRefusedError, match=why):
        written(source)


def offered(script: Path, pause: float, *events: tuple[str, dict[str, Any]]) -> FixOption | None:
    """For a script whose steps of 100 ms each have a collection of so many ms."""
    script.write_text("import torch\nfor x in loader:\n    " + TRAIN + "\n")
    run = collecting(pause)
    here = [Seen(100 * n, 50, 2, file=str(script)) for n in range(60)]
    table = GrowingTable(EVENT_COLUMNS, floats=False, text=("kind", "data"))
    for part in (run.ranks[0].events, event_table(events=events)):
        rows = range(len(part))
        table.extend([[part[column.name][at] for column in EVENT_COLUMNS] for at in rows])
    rank = replace(run.ranks[0], stacks=stacks_of(*here), events=table.freeze())
    return option(FREEZE, Facts(replace(run, ranks=(rank,))))


def test_it_is_offered_for_long_collections_only(tmp_path: Path) -> None:
    found = offered(tmp_path / "train.py", 30)
    assert found is not None
    assert (found.line, found.override, found.risks) == (2, None, (Risk.MEMORY,))
    assert found.patch is not None
    assert b"import torch\nimport gc\ngc.freeze()\nfor x" in found.patch.after
    assert offered(tmp_path / "train.py", 4) is None


def test_it_is_not_offered_where_objects_are_frozen_already(tmp_path: Path) -> None:
    events = ("settings", {"gc": {"enabled": True, "thresholds": [700, 10, 10], "frozen": 90_000}})
    assert offered(tmp_path / "train.py", 30, events) is None
