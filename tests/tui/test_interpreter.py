"""Which Python runs the script, where perftui has an environment of its own."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from perftui_tui.commands import run as choice
from perftui_tui.commands.line import parse
from perftui_tui.commands.run import interpreter, training_interpreter

Patch = pytest.MonkeyPatch
LINE = parse(["train.py"])


def environment(root: Path, packages: str | None = "lib/python3.12/site-packages") -> Path:
    """An environment below ``root``, with torch below ``packages``; its Python."""
    python = root / "bin" / "python3"
    python.parent.mkdir(parents=True)
    python.touch(mode=0o755)
    (root / "bin" / "python").symlink_to(python)
    if packages is not None:
        (root / packages / "torch").mkdir(parents=True)
        (root / packages / "torch" / "__init__.py").touch()
    return python


@pytest.fixture
def no_other(monkeypatch: Patch, tmp_path: Path) -> None:
    """No environment is active, no Python on PATH, and perftui's own has no torch."""
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    monkeypatch.delenv("CONDA_PREFIX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.setattr(choice, "find_spec", lambda _: None)


@pytest.mark.parametrize("variable", ["VIRTUAL_ENV", "CONDA_PREFIX"])
def test_the_active_environment_comes_first(
    variable: str, monkeypatch: Patch, tmp_path: Path
) -> None:
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    environment(tmp_path / "active")
    monkeypatch.setenv(variable, str(tmp_path / "active"))
    assert interpreter(LINE) == str(tmp_path / "active/bin/python")


@pytest.mark.parametrize(
    "packages",
    [
        "lib/python3.12/site-packages",
        "lib/python3/dist-packages",
        "local/lib/python3.12/dist-packages",
    ],
)
@pytest.mark.usefixtures("no_other")
def test_of_an_image_the_python_that_has_torch(
    packages: str, monkeypatch: Patch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    environment(tmp_path / "active", packages=None)
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "active"))
    python = environment(tmp_path / "usr", packages)
    monkeypatch.setenv("PATH", str(python.parent))
    assert training_interpreter(LINE) == str(python)
    assert capsys.readouterr().err == ""


def test_our_own_comes_before_others_if_it_has_torch(monkeypatch: Patch, tmp_path: Path) -> None:
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    monkeypatch.delenv("CONDA_PREFIX", raising=False)
    monkeypatch.setattr(choice, "find_spec", lambda name: name)
    monkeypatch.setenv("PATH", str(environment(tmp_path / "usr").parent))
    assert interpreter(LINE) == sys.executable


@pytest.mark.usefixtures("no_other")
def test_where_none_has_torch_our_own_runs_it_and_that_is_said(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert training_interpreter(LINE) == sys.executable
    assert capsys.readouterr().err == (
        f"perftui: no Python with PyTorch was found, so running with {sys.executable}; "
        "--python PATH names another\n"
    )


@pytest.mark.usefixtures("no_other")
def test_nothing_is_said_of_the_interpreter_that_was_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    named = environment(tmp_path / "named", packages=None)
    line = parse(["--python", str(named), "train.py"])
    assert training_interpreter(line) == str(named)
    assert capsys.readouterr().err == ""
