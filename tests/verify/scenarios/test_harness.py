"""The harness of the trainings: what a file says must be found, and how a report is scored."""

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tests.verify.scenarios.expected import (
    Expected,
    Kind,
    Nearness,
    Planted,
    planted_in,
    read_training,
)
from tests.verify.scenarios.recordings import recordings
from tests.verify.scenarios.run import TRAININGS
from tests.verify.scenarios.score import BUSY, Row, failed, judge, summary, table, totals

SOURCE = '''"""Planted: a log is written after every step.

rule: python-bound, checkpoint
gain: 1.8
setup: torchrun --nproc-per-node 2
"""
import json


def log(record):
    text = json.dumps(record)

    more = 1
    more = 2
    with open("log", "a") as file:
        file.write(text)  # planted


x = 1
log({})
'''
PLANTED = Planted("train.py", frozenset({16}), (range(10, 17),))
EXPECTED = Expected("train", Kind.PLANTED, ("python-bound", "checkpoint"), PLANTED, 1.8)
HEALTHY = Expected("fine", Kind.HEALTHY)
REPAIRED = Expected("mended", Kind.REPAIRED, ("python-bound",))


def finding(
    rule: str, severity: str = "critical", file: str | None = None, line: int | None = None
) -> dict[str, Any]:
    place = {"file": file, "line": line, "operator": "aten::mm"}
    return {"rule": rule, "severity": severity, "place": place, "cost_ns": 5_000_000, "share": 0.5}


def said(*findings: dict[str, Any]) -> dict[str, Any]:
    return {"findings": list(findings)}


def test_a_training_tells_what_must_be_found_or_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(SOURCE)
    training = read_training(path)
    assert training.expected == EXPECTED
    assert training.launcher == ("torchrun", "--nproc-per-node", "2")
    path = tmp_path / "fine.py"
    path.write_text('"""Nothing planted.\n\nrule: healthy\n"""\n')
    assert read_training(path).expected == HEALTHY
    path.write_text('"""Planted: something.\n\nrule:\n"""\n')
    with pytest.raises(ValueError, match=r"^fine.py: no 'rule:' line in the docstring$"):
        read_training(path)


ON_GPU = TRAININGS.parent / "on_gpu"


@pytest.mark.parametrize(
    "path", sorted((*TRAININGS.glob("*.py"), *ON_GPU.glob("*.py"))), ids=lambda path: path.stem
)
def test_every_training_tells_what_is_planted_and_where(path: Path) -> None:
    training = read_training(path)
    expected = training.expected
    nowhere = expected.kind is Kind.HEALTHY or expected.rules == (BUSY,)
    assert (expected.planted is None) == nowhere
    for source in (training.source, training.mended or ""):
        compile(source, path, "exec")
        assert "# fixed:" not in source


def test_a_training_is_mended_by_its_comments(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(
        SOURCE.replace(
            "        file.write(text)", "        # fixed:\n        file.write(text)"
        ).replace("    more = 1\n", "    # fixed: more = 3\n    # fixed: text = ''\n    more = 1\n")
    )
    training = read_training(path)
    assert (training.source, training.expected) == (SOURCE, EXPECTED)
    assert training.mended == SOURCE.replace("        file.write(text)  # planted\n", "").replace(
        "    more = 1\n", "    more = 3\n    text = ''\n"
    )


@pytest.mark.parametrize(
    ("file", "line", "nearness"),
    [
        ("/runs/train.py", 16, Nearness.OK),
        ("train.py", 11, Nearness.NEAR),  # in the same function
        ("train.py", 19, Nearness.NEAR),  # behind it, within three lines
        ("train.py", 20, Nearness.WRONG),
        ("model.py", 16, Nearness.WRONG),
        ("train.py", None, Nearness.WRONG),
        (None, None, Nearness.WRONG),
    ],
)
def test_a_place_is_compared_with_the_planted_lines(
    file: str | None, line: int | None, nearness: Nearness
) -> None:
    assert PLANTED.nearness(file, line) is nearness


def test_a_marked_line_stands_for_its_statement_in_the_innermost_function() -> None:
    source = "def outer():\n    def inner():\n        return 1\n    return inner\n"
    assert planted_in("a.py", source, [3]).functions == (range(2, 4),)
    assert planted_in("a.py", source, [4]).functions == (range(1, 5),)
    source = "for x in range(\n    3\n):\n    y = max(\n        x,\n        1,\n    )\n    z = 1\n"
    assert planted_in("a.py", source, [7]).lines == {4, 5, 6, 7}
    assert planted_in("a.py", source, [1]).lines == {1}


def test_the_first_finding_is_held_to_the_planted_cause() -> None:
    right = judge(said(finding("checkpoint", "info", "/a/train.py", 16)), EXPECTED)
    assert (right.rule, right.severity, right.place) == ("checkpoint", "info", "train.py:16")
    assert (right.ok, right.nearness) == (True, Nearness.OK)
    assert (right.cost_ns, right.share) == (5_000_000, 0.5)
    second = judge(said(finding("largest-part"), finding("python-bound")), EXPECTED)
    assert (second.rule, second.place, second.ok) == ("largest-part", "aten::mm", False)
    nothing = judge(said(), EXPECTED)
    assert (nothing.rule, nothing.ok, nothing.nearness) == ("", False, Nearness.WRONG)


def test_an_innocent_training_is_accused_by_what_stands_above_info() -> None:
    assert judge(said(), HEALTHY).ok
    assert judge(said(finding("healthy", "healthy")), HEALTHY).ok
    assert judge(said(finding("compute-bound", "info")), HEALTHY).ok
    accused = judge(said(finding("compute-bound", "info"), finding("float64", "warning")), HEALTHY)
    assert (accused.rule, accused.ok) == ("float64", False)
    # A repaired one by the cause that it had alone.
    assert judge(said(finding("launch-bound")), REPAIRED).ok
    assert judge(said(finding("launch-bound"), finding("python-bound", "info")), REPAIRED).ok
    accused = judge(said(finding("launch-bound"), finding("python-bound")), REPAIRED)
    assert (accused.rule, accused.ok) == ("python-bound", False)
    # A busy machine is no fault of it.
    busy = judge(said(finding("busy-host"), finding("compute-bound", "info")), HEALTHY)
    assert (busy.rule, busy.ok, busy.busy) == ("compute-bound", True, True)
    planted = Expected("busy", Kind.PLANTED, ("busy-host",))
    assert judge(said(finding("busy-host")), planted).ok


def rows(*, right: int = 20, wrong: int = 0, innocent: Row | None = None) -> list[Row]:
    good = judge(said(finding("python-bound", file="train.py", line=12)), EXPECTED)
    bad = judge(said(finding("healthy", "healthy")), EXPECTED)
    return [*([good] * right), *([bad] * wrong), innocent or judge(said(), HEALTHY)]


def test_totals_meet_the_bars_or_not() -> None:
    good = totals(rows())
    assert (good.planted, good.top, good.placed, good.place, good.exact) == (20, 20, 20, 20, 0)
    assert (good.innocent, good.accused, good.called_healthy, good.failed) == (1, 0, 0, 0)
    assert good.met
    healthy = totals(rows(right=99, wrong=1))
    assert (healthy.top, healthy.place, healthy.called_healthy) == (99, 99, 1)
    assert not healthy.met
    accused = totals(rows(innocent=judge(said(finding("float64")), HEALTHY)))
    assert (accused.accused, accused.met) == (1, False)
    broken = totals(rows(innocent=failed(HEALTHY, "exit code 1")))
    assert (broken.accused, broken.failed, broken.met) == (0, 1, False)
    largest = judge(said(finding("largest-part", file="train.py", line=16)), EXPECTED)
    assert totals([*rows(right=19), largest]).met
    assert not totals([*rows(right=18), largest, largest]).met


def test_table_and_summary() -> None:
    shown = table(rows(right=1, innocent=failed(HEALTHY, "ended after 180 s"))).splitlines()
    assert [" ".join(line.split()) for line in shown] == [
        "training planted gain said place said place lost share",
        "train python-bound, checkpoint 1.80x python-bound critical "
        "train.py:12 near 5.0 ms 50 % ok",
        "fine healthy ended after 180 s WRONG",
    ]
    assert summary(totals(rows(right=1, wrong=1))).splitlines() == [
        "first finding right   1 of 2 (50 %), at least 95 % wanted",
        "place right           1 of 2 (50 %), at least 90 % wanted; 0 at the very line",
        "innocent accused      0 of 1 (0 %), none wanted",
        "planted but HEALTHY   1 of 2 (50 %), none wanted",
        "without a report      0, none wanted",
        "beside other programs 0: what is said of them is doubtful",
        "NOT MET",
    ]


def test_recordings_that_count_are_unpacked(tmp_path: Path) -> None:
    truth = [
        {"name": "a", "rule": "float64", "place": "a.py:2", "gain": 2.0},
        {"name": "b", "rule": "float64", "place": "b.py:2", "gain": 1.05},
        {"name": "c", "rule": "healthy", "place": None, "gain": None},
    ]
    for one in truth:
        one["recordings"] = ["fixed", "planted"]
    for directory in ("trainings", "runs"):
        (tmp_path / directory).mkdir()
    (tmp_path / "truth.json").write_text(json.dumps(truth))
    (tmp_path / "trainings" / "a.py").write_text("def f():\n    return 1\n")
    for name in "ac":
        with tarfile.open(tmp_path / "runs" / f"{name}.tar.xz", "w:xz") as archive:
            content = b'{"cwd": "/trainings/"}'
            member = tarfile.TarInfo(f"{name}/planted/run.json")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    found = dict(recordings(tmp_path, tmp_path / "out"))
    planted = Planted("a.py", frozenset({2}), (range(1, 3),))
    assert list(found) == [
        Expected("gpu/a/fixed", Kind.REPAIRED, ("float64",)),
        Expected("gpu/a/planted", Kind.PLANTED, ("float64",), planted, 2.0),
        Expected("gpu/c/fixed", Kind.HEALTHY),
        Expected("gpu/c/planted", Kind.HEALTHY),
    ]
    run = json.loads((found[Expected("gpu/c/planted", Kind.HEALTHY)] / "run.json").read_text())
    script = Path(run["cwd"]) / "a.py"
    assert script.read_text() == "def f():\n    return 1\n"
    assert script.stat().st_mtime == 0
    chosen = recordings(tmp_path, tmp_path / "out", lambda name: name == "gpu/c/fixed")
    assert [expected.name for expected, _ in chosen] == ["gpu/c/fixed"]
