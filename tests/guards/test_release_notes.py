"""A release is what its tag says: the package's version and the changelog agree with it."""

import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

from perftui import __version__

SCRIPT = Path(__file__).parents[2] / ".ci" / "release_notes.py"

NEWEST = "## 1.2.0 - 2026-11-28\n\n### Added\n- One thing.\n\n"
OLDER = "## 1.1.0 - 2026-10-01\n\n### Fixed\n- Another.\n"


def loaded() -> ModuleType:
    spec = spec_from_file_location("release_notes", SCRIPT)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


RELEASE = loaded()


def tree(root: Path, *, version: str = "1.2.0", changelog: str = NEWEST + OLDER) -> Path:
    package = root / RELEASE.PACKAGE
    package.parent.mkdir(parents=True)
    package.write_text(f'"""Words."""\n\n__version__ = "{version}"\n')
    (root / RELEASE.CHANGELOG).write_text(f"# Changelog\n\nWords.\n\n{changelog}")
    return root


def test_the_notes_are_the_newest_section(tmp_path: Path) -> None:
    assert RELEASE.notes("v1.2.0", tree(tmp_path)) == "### Added\n- One thing."


@pytest.mark.parametrize(
    ("tag", "changes", "why"),
    [
        ("v1.2.1", {}, "the tag is v1.2.1, but core/perftui/__init__.py says 1.2.0"),
        ("1.2.0", {}, "the tag is 1.2.0"),
        ("v1.3.0", {"version": "1.3.0"}, "begins with '1.2.0 - 2026-11-28', not with '1.3.0 - "),
        ("v1.2.0", {"changelog": "## Unreleased\n\n- X.\n" + NEWEST}, "begins with 'Unreleased'"),
        ("v1.2.0", {"changelog": "## 1.2.0\n\n- X.\n"}, "begins with '1.2.0', not"),
        ("v1.2.0", {"changelog": "## 1.2.0 - 2026-11-28\n\n" + OLDER}, "says nothing about 1.2.0"),
    ],
    ids=["other tag", "no v", "other section", "unreleased", "undated", "empty"],
)
def test_what_does_not_agree_is_not_released(
    tmp_path: Path, tag: str, changes: dict[str, str], why: str
) -> None:
    with pytest.raises(RELEASE.DisagreeError, match=why):
        RELEASE.notes(tag, tree(tmp_path, **changes))


def test_this_tree_is_read(tmp_path: Path) -> None:
    assert RELEASE.version() == __version__
    heading, text = RELEASE.sections()[0]
    assert heading == "Unreleased" or heading.startswith(f"{__version__} - ")
    assert text


def test_a_tag_of_another_version_fails_the_build() -> None:
    command = [sys.executable, str(SCRIPT), "v0.0.0"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"the tag is v0.0.0, but core/perftui/__init__.py says {__version__}\n"
