"""What a script does besides training: garbage collection, and a profiler of its own."""

import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from perftui.facts.fact import Facts
from perftui.fixes.fix import option
from perftui.fixes.option import FixOption, Risk
from perftui.fixes.script_overhead import frozen, gc_freeze, profiler_schedule
from perftui.run.columns import EVENT_COLUMNS
from perftui.script.program import PatchRefusedError
from tests.core.diagnosis.runs import Seen, event_table, stacks_of, with_tables
from tests.core.diagnosis.test_slow_steps import collecting
from tests.core.fixes.test_line_changes import TRAIN, changed
from tests.step_rows import table_of

HEAD = "import gc  # here\n"


def written(source: str) -> str:
    return changed(frozen, HEAD + source).removeprefix("import gc\n")


def test_it_comes_before_the_outermost_loop_and_its_comments_or_first_in_a_function() -> None:
    source = "for epoch in range(9):\n    for x in loader:\n        TRAIN\n"
    assert written(source) == "gc.freeze()\n" + source.replace("TRAIN", TRAIN)
    source = "def fit(model, loader):\n    for x in loader:\n        TRAIN\n"
    assert "def fit(model, loader):\n    gc.freeze()\n    for x in loader:\n" in written(source)
    source = "def f():\n    pass\n\n\n# Train.\nfor x in loader:\n    TRAIN\n"
    assert written(source).startswith(
        "def f():\n    pass\n\n\ngc.freeze()\n# Train.\nfor x in loader:\n"
    )


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


NOT_FROZEN = {
    "nothing trains": ("for x in y:\n    f(x)\n", "runs backward"),
    "no loop": ("TRAIN\n", "outside of the file's loops"),
    "two loops": ("for x in y:\n    TRAIN\nfor x in z:\n    TRAIN\n", "2 loops of the file"),
    "frozen already": ("gc.freeze()\nfor x in y:\n    TRAIN\n", "already"),
    "a name of one's own": ("gc = mine\nfor x in y:\n    TRAIN\n", "certainly gives gc"),
}


@pytest.mark.parametrize(("source", "why"), NOT_FROZEN.values(), ids=NOT_FROZEN)
def test_gc_is_not_frozen_where_it_is_not_certain(source: str, why: str) -> None:
    with pytest.raises(PatchRefusedError, match=why):
        written(source)


def offered(script: Path, pause: float, *events: tuple[str, dict[str, Any]]) -> FixOption | None:
    """For a script whose steps of 100 ms each have a collection of so many ms."""
    script.write_text("import torch\nfor x in loader:\n    " + TRAIN + "\n")
    run = collecting(pause)
    here = [Seen(100 * n, 50, 2, file=str(script)) for n in range(60)]
    rows = [
        [part[column.name][at] for column in EVENT_COLUMNS]
        for part in (run.ranks[0].events, event_table(events=events))
        for at in range(len(part))
    ]
    notes = table_of(EVENT_COLUMNS, rows)
    return option(gc_freeze, Facts(with_tables(run, stacks=stacks_of(*here), events=notes)))


def test_it_is_offered_for_long_collections_only_and_where_nothing_is_frozen(
    tmp_path: Path,
) -> None:
    found = offered(tmp_path / "train.py", 30)
    assert (found.line, found.override, found.risks) == (2, None, (Risk.MEMORY,))
    assert b"import torch\nimport gc\ngc.freeze()\nfor x" in found.patch.after
    assert offered(tmp_path / "train.py", 4) is None
    events = ("settings", {"gc": {"enabled": True, "thresholds": [700, 10, 10], "frozen": 90_000}})
    assert offered(tmp_path / "train.py", 30, events) is None


LOOP = """
with profile({}) as prof:  # here
    for step in range(9):
        train()
        prof.step()
"""
IMPORT = "from torch.profiler import profile\n"
FEW = "schedule(wait=1, warmup=1, active=3, repeat=1)"


def call_in(text: str) -> str:
    """What the profiler is made with."""
    return text[text.index("profile(") : text.index(" as prof")]


@pytest.mark.parametrize(
    ("head", "name"),
    [
        ("import torch\n" + IMPORT, "torch.profiler."),
        ("import torch as th\n" + IMPORT, "th.profiler."),
        ("from torch.profiler import profile, schedule\n", ""),
        (IMPORT + "from torch.profiler import schedule as every\n", None),
        ("import torch\nimport torch.profiler as tp\n" + IMPORT, "tp."),
    ],
)
def test_a_schedule_is_written_as_the_file_can_name_it(head: str, name: str | None) -> None:
    after = changed(profiler_schedule.plan, head + LOOP.format("with_stack=True"))
    wanted = FEW.replace("schedule", "every") if name is None else name + FEW
    assert call_in(after) == f"profile(with_stack=True, schedule={wanted})"


def test_a_schedule_without_end_ends_after_the_first_time() -> None:
    head = "from torch.profiler import profile, schedule\n"
    for given in ("wait=12, active=3", "wait=12, active=3, repeat=0"):
        after = changed(profiler_schedule.plan, head + LOOP.format(f"schedule=schedule({given})"))
        assert call_in(after) == "profile(schedule=schedule(wait=12, active=3, repeat=1))"


NOT_SCHEDULED = {
    "no steps": (LOOP.replace("prof.step()", "other.step()"), "nothing calls prof.step"),
    "no name": (LOOP.replace(" as prof", ""), "nothing calls the profiler.step"),
    "another schedule": (LOOP.format("schedule=mine"), "already has a schedule: mine"),
    "one that ends": (LOOP.format("schedule=schedule(wait=1, repeat=2)"), "already ends: repeat=2"),
    "unpacked": (LOOP.format("**options"), "not certain which arguments"),
    "none, on purpose": (LOOP.format("schedule=None"), "own choice"),
    "an older profiler": (
        LOOP.replace("profile(", "torch.autograd.profiler.profile("),
        "may not be torch.profiler.profile",
    ),
}


@pytest.mark.parametrize(("source", "why"), NOT_SCHEDULED.values(), ids=NOT_SCHEDULED)
def test_a_profiler_is_left_alone_where_it_is_not_certain(source: str, why: str) -> None:
    head = "import torch\nfrom torch.profiler import profile, schedule\n"
    with pytest.raises(PatchRefusedError, match=why):
        changed(profiler_schedule.plan, head + source.format(""))


def test_without_a_name_for_torch_it_is_refused() -> None:
    with pytest.raises(PatchRefusedError, match="no import of the file certainly gives"):
        changed(profiler_schedule.plan, IMPORT + LOOP.format(""))


def test_what_the_script_does_with_the_profile_still_works(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    source = dedent(
        """
        import torch
        from torch.profiler import profile
        with profile(on_trace_ready=seen.append) as prof:  # here
            for step in range(12):
                torch.ones(3).sum()
                prof.step()
        rows = len(prof.key_averages())
        prof.export_chrome_trace(path)
        """
    )
    names = {"seen": [], "path": str(tmp_path / "trace.json")}
    exec(changed(profiler_schedule.plan, source), names)  # noqa: S102
    assert len(names["seen"]) == 1
    assert names["rows"] > 0  # type: ignore[operator]
    assert (tmp_path / "trace.json").stat().st_size > 0
    assert torch.__name__ in sys.modules
