"""Schedules for a script's own profiler: what is written, and that the script still runs."""

from __future__ import annotations

import sys
from pathlib import Path
from textwrap import dedent

import pytest

from perftui.fixes.script_overhead import few_steps
from perftui.script.program import PatchRefusedError
from tests.core.fixes.test_line_changes import changed

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
    after = changed(few_steps, head + LOOP.format("with_stack=True"))
    wanted = FEW.replace("schedule", "every") if name is None else name + FEW
    assert call_in(after) == f"profile(with_stack=True, schedule={wanted})"


def test_a_schedule_without_end_ends_after_the_first_time() -> None:
    head = "from torch.profiler import profile, schedule\n"
    for given in ("wait=12, active=3", "wait=12, active=3, repeat=0"):
        after = changed(few_steps, head + LOOP.format(f"schedule=schedule({given})"))
        assert call_in(after) == "profile(schedule=schedule(wait=12, active=3, repeat=1))"


REFUSED = {
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


@pytest.mark.parametrize(("source", "why"), REFUSED.values(), ids=REFUSED)
def test_what_is_not_certain_is_refused(source: str, why: str) -> None:
    head = "import torch\nfrom torch.profiler import profile, schedule\n"
    with pytest.raises(PatchRefusedError, match=why):
        changed(few_steps, head + source.format(""))


def test_without_a_name_for_torch_it_is_refused() -> None:
    with pytest.raises(PatchRefusedError, match="no import of the file certainly gives"):
        changed(few_steps, IMPORT + LOOP.format(""))


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
    exec(changed(few_steps, source), names)  # noqa: S102
    assert len(names["seen"]) == 1
    assert names["rows"] > 0  # type: ignore[operator]
    assert (tmp_path / "trace.json").stat().st_size > 0
    assert torch.__name__ in sys.modules
