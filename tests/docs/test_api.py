"""What docs/api.md shows of Python is what Python does."""

import doctest
import re
from pathlib import Path

import pytest

import perftui
from tests.docs.documents import ROOT, snippets
from tests.tui.recorded import ENDED, write_run
from tests.tui.traces import write_trace

DOCUMENT = ROOT / "docs" / "api.md"


def test_examples_print_what_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_run(tmp_path / "runs", **ENDED)
    write_trace(tmp_path)
    monkeypatch.chdir(tmp_path)

    found = doctest.testfile(str(DOCUMENT), module_relative=False, optionflags=doctest.ELLIPSIS)

    assert found.attempted > 15
    assert found.failed == 0


def test_the_example_for_recorded_runs_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = write_run(tmp_path / ".perftui" / "runs", **ENDED)
    monkeypatch.chdir(tmp_path)
    (code,) = snippets(ROOT / "docs" / "runs.md")

    exec(code, {})  # noqa: S102 - what the document shows

    verdict, numbers = capsys.readouterr().out.splitlines()
    assert verdict == perftui.open_run(root).verdict
    assert numbers.endswith("('loader-workers',)")


@pytest.mark.parametrize("name", ["Run", "Trace"])
def test_all_that_they_have_is_in_a_table(name: str) -> None:
    rows = re.findall(r"^\| (`.*?) \|", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE)
    shown = {word for row in rows for word in re.findall(r"`(\w+)", row)}
    names = {one for one in dir(getattr(perftui, name)) if not one.startswith("_")}

    assert names <= shown
