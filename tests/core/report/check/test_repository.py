"""Files are named as they are in the repository, also those of a training elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.report.check.model import Repository, repository_around


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository with a script in a folder."""
    (tmp_path / "repo" / ".git").mkdir(parents=True)
    (tmp_path / "repo" / "vision").mkdir()
    (tmp_path / "repo" / "vision" / "train.py").write_text("")
    (tmp_path / "repo" / "utils.py").write_text("")
    return tmp_path / "repo"


@pytest.mark.parametrize(
    ("file", "cwd", "named"),
    [
        ("{root}/vision/train.py", None, "vision/train.py"),
        ("{root}/vision/../utils.py", None, "utils.py"),
        ("train.py", "{root}/vision", "vision/train.py"),
        ("/home/ada/repo/vision/train.py", "/home/ada/repo/vision", "vision/train.py"),
        ("/home/ada/repo/vision/train.py", "/home/ada/repo", "vision/train.py"),
        ("/usr/lib/python3/utils.py", "/home/ada/repo", None),
        ("/home/ada/repo/venv/lib/utils.py", "/home/ada/repo", None),
        ("/home/ada/repo/../utils.py", "/home/ada/repo", None),
        ("/home/ada/repo/vision/gone.py", "/home/ada/repo", None),
        ("/usr/lib/python3/utils.py", None, None),
        (None, None, None),
        ("a\x00b", "{root}", None),
    ],
)
def test_a_file_is_named_by_its_place_in_the_repository(root: Path, file, cwd, named) -> None:
    file, cwd = (one.format(root=root) if one else one for one in (file, cwd))
    repository = Repository(root)
    assert repository.inside(file, cwd) == named
    assert repository.shown(file, cwd) == (named or file)


def test_the_repository_is_that_of_the_runner_or_the_one_around(root: Path) -> None:
    inner = root / "vision"
    assert repository_around(inner, None).root == root.resolve()
    assert repository_around(inner, str(root.parent)).root == root.parent.resolve()
    assert repository_around(inner, str(root / "elsewhere")).root == root.resolve()


def test_a_link_that_leads_out_is_not_inside(root: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.py").write_text("")
    (root / "link.py").symlink_to(tmp_path / "secret.py")
    assert Repository(root).inside(str(root / "link.py"), None) is None


@given(st.text(), st.none() | st.text())
def test_any_name_is_inside_or_not(file, cwd) -> None:
    found = Repository(Path("/w")).inside(file, cwd)
    assert found is None or not found.startswith(("/", "../"))
