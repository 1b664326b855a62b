""""""

from __future__ import annotations

from pathlib import Path

import pytest

from perftui.script.command_line import LaunchedScript, launched_script


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "train.py").touch()
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__main__.py").touch()
    return tmp_path


@pytest.mark.parametrize(
    ("command", "script", "begin"),
    [
        ("python train.py --lr 1", "train.py", 2),
        ("/usr/bin/python3.11 -u train.py -u", "train.py", 3),
        ("python -uB -W ignore -Wdefault -X dev -Xutf8 train.py", "train.py", 9),
        ("python -uW ignore train.py", "train.py", 4),
        ("python --check-hash-based-pycs never train.py", "train.py", 4),
        ("python -O -m train -j 4", "train.py", 4),
        ("python -m package", "package/__main__.py", 3),
        ("torchrun --nproc-per-node 2 train.py -j 4", "train.py", 4),
        ("/opt/bin/torchrun --nproc_per_node=2 --standalone train.py", "train.py", 4),
        ("torchrun -m train -j 4", "train.py", 3),
        ("python -u -m torch.distributed.run --nnodes=1 train.py", "train.py", 6),
        ("./train.py -j 4", "train.py", 1),
        ("my-interpreter train.py", "train.py", 2),
    ],
)
def test_a_script_is_found_behind_options(here, command, script, begin) -> None:
    words = tuple(command.split())
    found = launched_script(words, here)
    word = None if words[begin - 1] in ("train", "package") else begin - 1
    assert found == LaunchedScript(here / script, begin, word)
    assert words[begin - 1].endswith((Path(script).name, "train", "package"))


@pytest.mark.parametrize(
    "command",
    [
        "python -c print() train.py",
        "python -",
        "python --later-option train.py",
        "python -m elsewhere.module",
        "python -m",
        "torchrun --later-option 1 train.py",
        "torchrun --no-python ./train.py",
        "torchrun --nproc-per-node 2",
        "accelerate launch train.py",
        "sh -c train.py",
        "python",
        "",
    ],
)
def test_what_is_not_certain_is_no_script(here, command) -> None:
    assert launched_script(tuple(command.split()), here) is None
