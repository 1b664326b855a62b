"""A patch is written and taken back byte for byte, also where the process is killed meanwhile."""

import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.diagnosis.diagnose import diagnosis
from perftui.facts.fact import Facts
from perftui.fixes.apply_and_undo import (
    SourceChangedError,
    applied_to,
    apply_patch,
    last_applied,
    original_of,
    patch_store,
    undo,
)
from perftui.fixes.catalogue import options
from perftui.fixes.fix import LineChange, stands_in_source
from perftui.fixes.option import FixOption, Patch, Risk
from tests.core.diagnosis.runs import make_run

BEFORE, AFTER = b"\xef\xbb\xbfa = 0\r\n", b"\xef\xbb\xbfa = 2\r\n"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_bytes(BEFORE)
    return path


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / ".perftui" / "patches"


def test_a_patch_is_written_and_taken_back_byte_for_byte(source, store) -> None:
    applied = apply_patch(Patch(source, BEFORE, AFTER), store, "num_workers 0 -> 2")
    assert source.read_bytes() == AFTER
    assert last_applied(store) == applied
    assert undo(applied, store) == source
    assert source.read_bytes() == BEFORE
    assert last_applied(store) is None
    assert list(store.iterdir()) == []


@given(before=st.binary(), after=st.binary())
def test_undo_gives_back_any_bytes(tmp_path_factory, before, after) -> None:
    directory = tmp_path_factory.mktemp("undo")
    path = directory / "f.py"
    path.write_bytes(before)
    undo(apply_patch(Patch(path, before, after), directory / "store"), directory / "store")
    assert path.read_bytes() == before


def test_a_file_that_changed_since_the_patch_was_made_is_left_alone(source, store) -> None:
    source.write_bytes(b"mine\n")
    with pytest.raises(SourceChangedError, match="has changed since"):
        apply_patch(Patch(source, BEFORE, AFTER), store)
    assert source.read_bytes() == b"mine\n"
    assert last_applied(store) is None


def test_an_edit_after_the_patch_is_never_lost(source, store) -> None:
    applied = apply_patch(Patch(source, BEFORE, AFTER), store)
    edited = AFTER + b"b = 1\r\n"
    source.write_bytes(edited)
    with pytest.raises(SourceChangedError, match="was edited after") as refusal:
        undo(applied, store)
    assert source.read_bytes() == edited
    kept = original_of(applied, store)
    assert str(kept) in str(refusal.value)
    assert kept.read_bytes() == BEFORE
    source.write_bytes(AFTER)  # once the edit is gone, undo works again
    undo(applied, store)
    assert source.read_bytes() == BEFORE


def test_a_damaged_original_is_not_written_back(source, store) -> None:
    applied = apply_patch(Patch(source, BEFORE, AFTER), store)
    original_of(applied, store).write_bytes(b"other")
    with pytest.raises(SourceChangedError, match="is not the original"):
        undo(applied, store)
    assert source.read_bytes() == AFTER


@pytest.mark.parametrize("mode", [0o755, 0o600, 0o644, 0o4755, 0o2755, 0o1644])
def test_permissions_stay(source, store, mode) -> None:
    source.chmod(mode)
    applied = apply_patch(Patch(source, BEFORE, AFTER), store)
    assert stat.S_IMODE(source.stat().st_mode) == mode
    undo(applied, store)
    assert stat.S_IMODE(source.stat().st_mode) == mode


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_file_of_another_user_stays_theirs(source, store) -> None:
    os.chown(source, 1000, 1001)
    source.chmod(0o4755)

    def seen() -> tuple[int, int, int]:
        status = source.stat()
        return status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)

    applied = apply_patch(Patch(source, BEFORE, AFTER), store)
    assert (source.read_bytes(), seen()) == (AFTER, (1000, 1001, 0o4755))
    undo(applied, store)
    assert (source.read_bytes(), seen()) == (BEFORE, (1000, 1001, 0o4755))


def test_a_file_that_would_change_its_owner_is_left_alone(source, store, monkeypatch) -> None:
    """As for a user who may write in a directory with files of somebody else."""
    real = os.fstat

    def of_another(handle: int) -> os.stat_result:
        fields = list(real(handle))
        fields[4] += 1
        return os.stat_result(fields)

    def denied(handle: int, user: int, group: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "fstat", of_another)
    monkeypatch.setattr(os, "fchown", denied)
    with pytest.raises(PermissionError, match="which cannot be preserved"):
        apply_patch(Patch(source, BEFORE, AFTER), store)
    assert source.read_bytes() == BEFORE
    assert list(store.iterdir()) == []
    assert list(source.parent.glob(".train.py.*")) == []


def test_undo_gives_back_the_time_of_the_last_change(source, store) -> None:
    changed = source.stat().st_mtime_ns
    undo(apply_patch(Patch(source, BEFORE, AFTER), store), store)
    assert source.stat().st_mtime_ns == changed


def test_what_is_kept_is_private(source, store) -> None:
    apply_patch(Patch(source, BEFORE, AFTER), store)
    assert {stat.S_IMODE(kept.stat().st_mode) for kept in store.iterdir()} == {0o600}


def test_a_link_stays_a_link(source, store, tmp_path) -> None:
    link = tmp_path / "link.py"
    link.symlink_to(source)
    applied = apply_patch(Patch(link, BEFORE, AFTER), store)
    assert (link.is_symlink(), source.read_bytes()) == (True, AFTER)
    undo(applied, store)
    assert (link.is_symlink(), source.read_bytes()) == (True, BEFORE)


def test_patches_of_one_file_are_undone_in_reverse(source, store) -> None:
    first = apply_patch(Patch(source, BEFORE, AFTER), store)
    second = apply_patch(Patch(source, AFTER, b"third"), store)
    assert last_applied(store) == second
    with pytest.raises(SourceChangedError):
        undo(first, store)
    undo(second, store)
    assert last_applied(store) == first
    undo(first, store)
    assert source.read_bytes() == BEFORE


def test_a_file_that_cannot_be_written_leaves_no_record(source, store, monkeypatch) -> None:
    import perftui.fixes.apply_and_undo as module

    write = module.replace_file

    def fail_on_source(path: Path, *rest: Any) -> None:
        if path == source:
            raise PermissionError(13, "denied")
        write(path, *rest)

    monkeypatch.setattr(module, "replace_file", fail_on_source)
    with pytest.raises(PermissionError):
        apply_patch(Patch(source, BEFORE, AFTER), store)
    assert source.read_bytes() == BEFORE
    assert list(store.iterdir()) == []


def test_a_record_that_never_reached_the_file_is_passed_over(source, store) -> None:
    apply_patch(Patch(source, BEFORE, AFTER), store)
    source.write_bytes(BEFORE)
    assert last_applied(store) is None


@pytest.mark.parametrize("content", [b'{"patch', b'{"path": "\xff"}', b'{"x": ' + b"[" * 5000])
def test_a_damaged_record_is_passed_over(source, store, content) -> None:
    applied = apply_patch(Patch(source, BEFORE, AFTER), store)
    (store / "99999999999999999999-torn.json").write_bytes(content)
    (store / "99999999999999999999-directory.json").mkdir()
    assert last_applied(store) == applied


LONG_BEFORE, LONG_AFTER = b"x = 1\r\n" * 500, b"x = 2\r\n" * 500

KILLED = """\
import os, sys
from pathlib import Path
from perftui.fixes.option import Patch
from perftui.fixes.apply_and_undo import apply_patch, last_applied, undo

folder, what = Path(sys.argv[1]), sys.argv[2]
BEFORE, AFTER = b"x = 1\\r\\n" * 500, b"x = 2\\r\\n" * 500

def work(path, store):
    if what == "undo":
        undo(last_applied(store), store)
    else:
        apply_patch(Patch(path, BEFORE, AFTER), store)

def killed_at(line, path, store):
    lines = 0
    def count(frame, event, argument):
        nonlocal lines
        if "perftui" not in frame.f_code.co_filename:
            return None
        lines += event == "line"
        if lines == line:
            os._exit(9)
        return count
    sys.settrace(count)
    work(path, store)
    os._exit(0)

at = 0
while True:
    at += 1
    path, store = folder / str(at) / "train.py", folder / str(at) / "store"
    path.parent.mkdir()
    path.write_bytes(BEFORE)
    if what == "undo":
        apply_patch(Patch(path, BEFORE, AFTER), store)
    child = os.fork()
    if not child:
        killed_at(at, path, store)
    if os.waitpid(child, 0)[1] == 0:
        break
print(at)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.parametrize("what", ["apply", "undo"])
def test_a_kill_leaves_the_old_file_or_the_new_one(tmp_path, what) -> None:
    command = (sys.executable, "-c", KILLED, str(tmp_path), what)
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    moments = int(done.stdout)
    assert moments > 40
    found = set()
    for at in range(1, moments + 1):
        path, store = tmp_path / str(at) / "train.py", tmp_path / str(at) / "store"
        now = path.read_bytes()
        assert now in (LONG_BEFORE, LONG_AFTER)
        found.add(now)
        applied = last_applied(store)
        # What stands in the file can be taken back, whenever it was that the process ended.
        assert (applied is not None) == (now == LONG_AFTER)
        if applied is not None:
            undo(applied, store)
            assert path.read_bytes() == LONG_BEFORE
    assert found == {LONG_BEFORE, LONG_AFTER}


SCRIPT = "from torch.utils.data import DataLoader\nloader = DataLoader(data)\n"
WRITTEN = SCRIPT.replace("(data)", "(data, num_workers=4, persistent_workers=True)")
BEGAN = 1_700_000_000_000_000_000


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    os.utime(path, ns=(BEGAN - 1, BEGAN - 1))
    return path


def workers(script: Path) -> FixOption:
    loader = {"num_workers": 0, "file": str(script), "line": 2, "start_method": "fork"}
    run = make_run(
        phases={"input_wait": 60, "forward": 40},
        loaders=(loader,),
        cwd=str(script.parent),
        root=script.parent / "runs" / "one",
        started_ns=BEGAN,
    )
    facts = Facts(run, None)
    found = diagnosis(facts).top
    assert found is not None
    return options(found, facts)[0]


def write(script: Path) -> FixOption:
    option = workers(script)
    assert option.patch is not None
    store = patch_store(script.parent / "runs" / "one")
    apply_patch(option.patch, store, option.title, option.fix)
    return option


def told(script: Path) -> tuple[bool, bool, bool]:
    option = workers(script)
    assert option.patch is None
    return option.is_written, option.is_triable, option.is_reversible


def test_what_was_written_for_the_run_stands_in_the_source(script: Path) -> None:
    assert not write(script).is_written
    option = workers(script)
    assert told(script) == (True, False, True)
    assert option.why_not == option.why_not_tried == "written already, so run it again"


def test_it_still_stands_there_below_another_patch_of_the_file(script: Path) -> None:
    write(script)
    now = script.read_bytes()
    store = patch_store(script.parent / "runs" / "one")
    apply_patch(Patch(script, now, now + b"more = 1\n"), store, "more", "another-fix")
    assert [one.fix for one in applied_to(script, store)] == ["another-fix", "loader-workers"]
    script.write_text(script.read_text().replace(", persistent_workers=True", "") + "more = 2\n")
    assert list(applied_to(script, store)) == []


def test_what_somebody_wrote_by_hand_stands_in_the_source_on_whatever_line(script: Path) -> None:
    script.write_text(f"import os\n\n\n{WRITTEN}")
    assert told(script) == (True, False, True)


@pytest.mark.parametrize(
    "source",
    [
        SCRIPT + "more = 1\n",
        SCRIPT.replace("(data)", "(data, num_workers=4)"),
        WRITTEN + "other = DataLoader(data)\n",
        WRITTEN.replace("DataLoader(data", "Loader(data"),
        "loader = (\n",
    ],
    ids=["elsewhere", "in part", "one of two", "unknown call", "broken"],
)
def test_another_edit_is_no_fix(script: Path, source: str) -> None:
    script.write_text(source)
    assert told(script) == (False, True, True)
    assert workers(script).why_not == "train.py was edited after this run: run it again"


def test_what_the_run_had_already_is_not_news(script: Path) -> None:
    script.write_text(WRITTEN)
    os.utime(script, ns=(BEGAN - 1, BEGAN - 1))
    assert not workers(script).is_written


def test_some_risks_are_of_numbers_and_others_are_not() -> None:
    rounded = {Risk.NUMERICS, Risk.REPEATABLE, Risk.PRECISION, Risk.HALF}
    others = {Risk.NORMS, Risk.DROPOUT, Risk.EDIT}
    # A new one has to be put on either side.
    same = {
        *(Risk.MEMORY, Risk.RANDOMNESS, Risk.ORDER, Risk.UNUSED, Risk.SHARED, Risk.START),
        *(Risk.SELDOM, Risk.PACE, Risk.PROFILE, Risk.DRAWS, Risk.CORES, Risk.UNCHECKED),
    }
    assert {risk for risk in Risk if risk.is_numeric} == rounded | others
    assert set(Risk) == rounded | others | same
    assert FixOption("x", "x", "x", (Risk.MEMORY, Risk.NUMERICS)).changes_numerics
    assert not FixOption("x", "x", "x", (Risk.MEMORY, Risk.ORDER)).changes_numerics


def test_a_line_that_was_taken_out_is_known_by_its_record(script: Path) -> None:
    run = make_run(root=script.parent / "runs" / "one", started_ns=BEGAN)
    change = LineChange("no x", str(script), 2, lambda *_: (), "take x out")
    facts, before = Facts(run), script.read_bytes()
    assert not stands_in_source("x-off", change, facts)
    patch = Patch(script, before, before.replace(b"loader", b"other"))
    apply_patch(patch, patch_store(run.root), "no x", "x-off")
    assert stands_in_source("x-off", change, facts)
    assert not stands_in_source("y-off", change, facts)
