"""Whoever does what the guides in docs/adding say gets what they show."""

from pathlib import Path

import pytest

from tests.docs.alike import unlike
from tests.docs.guides import GUIDES, Change, Run, StaleError, copy_of_the_project, printed, steps


def name_of(guide: Path) -> str:
    return guide.stem


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One for all guides: each adds something of its own."""
    return copy_of_the_project(tmp_path_factory.mktemp("project"))


@pytest.mark.slow
@pytest.mark.parametrize("guide", GUIDES, ids=name_of)
def test_a_guide_leads_where_it_says(guide: Path, project: Path) -> None:
    commands = 0
    for step in steps(guide):
        if isinstance(step, Run):
            commands += 1
            assert unlike(step.shown, printed(step, project)) == "", step.command
        else:
            step.apply(project)
    assert commands


@pytest.mark.parametrize("place", [" one\n+two\n", " three\n-one\n"])
def test_a_guide_whose_lines_are_not_in_the_file_is_noticed(place: str, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("one\none\nthree\n")
    with pytest.raises(StaleError):
        Change("a.py", (place,)).apply(tmp_path)


def test_a_change_puts_lines_in_and_takes_lines_out(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("one\n\ntwo\nthree\n")
    Change("a.py", (" one\n\n+more\n two\n", " two\n-three\n+four\n")).apply(tmp_path)
    assert (tmp_path / "a.py").read_text() == "one\n\nmore\ntwo\nfour\n"
