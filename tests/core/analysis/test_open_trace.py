"""Opening a trace again takes what was kept, and nothing else changes."""

import gzip
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perftui.analysis import open_trace as opened
from perftui.analysis.analyse import analyse
from perftui.analysis.model import TraceAnalysis
from perftui.analysis.open_trace import never, open_trace
from perftui.analysis.timeline.tracks import timeline_tracks
from perftui.trace.cache import Store
from perftui.trace.formats import load_trace
from perftui.trace.model import Trace, TraceError
from tests.core.analysis.sameness import assert_right, assert_same
from tests.traces.events import Event, call, cpu, gpu, mark, memory, text_of

pytestmark = pytest.mark.usefixtures("cache")

USAGE = shutil.disk_usage("/")


def at_once(work: Callable[[], None]) -> None:
    work()


def step(index: int) -> Iterator[Event]:
    """A step with operators, a launch, two kernels on two streams and a copy that overlap."""
    t = 1000.0 * index
    yield mark(f"ProfilerStep#{index}", t, 990)
    for k in range(6):
        at, key = t + 10 + 150 * k, index * 100 + k
        known = {"External id": key}
        yield cpu(f"aten::op{k % 4}", at, 90.125, n=key, **known)
        yield call("cudaLaunchKernel", at + 5, 4, correlation=key, **known)
        kernel = f"void k{k % 3}<\u03b1>(int)"
        yield gpu(kernel, at + 20, 100 + k, key, stream=7 + k % 2, **known)
    yield memory(t + 3, 64, 64 * index)


def document(steps: int, **top: Any) -> str:
    events = [event for index in range(steps) for event in step(index)]
    return text_of(events, **top, baseTimeNanoseconds=10**18)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "trace.json"
    made.write_text(document(20, deviceProperties=[{"id": 0, "name": "GPU", "memory": 2**60}]))
    return made


def kept(cache: Path) -> list[Path]:
    return sorted(cache.iterdir()) if cache.is_dir() else []


def read_again(path: Path, loads: list[Path]) -> TraceAnalysis:
    """The trace, opened once more: the file is read for that, once."""
    loads.clear()
    again = open_trace(path, later=at_once)
    assert loads == [path]
    return again


def taken_again(path: Path, loads: list[Path]) -> TraceAnalysis:
    """The trace, opened once more: it is what was kept."""
    loads.clear()
    again = open_trace(path)
    assert loads == []
    return again


def test_the_second_opening_reads_no_text(path: Path, cache: Path, loads: list[Path]) -> None:
    assert_right(open_trace(path, later=at_once), path)
    again = taken_again(path, loads)
    assert again.timeline_tracks
    assert_right(again, path)
    assert [each.suffix for each in kept(cache)] == [".columns"]
    assert cache.stat().st_mode & 0o777 == 0o700
    assert kept(cache)[0].stat().st_mode & 0o777 == 0o600


def test_it_is_kept_beside_the_one_who_asked(path: Path, cache: Path) -> None:
    open_trace(path)
    for thread in threading.enumerate():
        if thread.name == "perftui-keeping":
            thread.join()
    assert len(kept(cache)) == 1


LETTERS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
TIMES = st.integers(0, 10**13).map(lambda ns: ns / 1000)
ODD = st.fixed_dictionaries(
    {
        "ph": st.just("X"),
        "cat": st.sampled_from(
            ["cpu_op", "kernel", "gpu_memcpy", "cuda_runtime", "user_annotation"]
        ),
        "name": LETTERS | st.sampled_from(["ProfilerStep#1", "aten::item", "nccl"]),
        "pid": st.integers(0, 2) | LETTERS,
        "tid": st.integers(-1, 3) | LETTERS,
        "ts": TIMES,
        "dur": TIMES,
        "args": st.dictionaries(
            st.sampled_from(["correlation", "External id", "device", "stream", "bytes", "x"]),
            st.integers(-1, 2**40),
            max_size=4,
        ),
    }
)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**25), 10**25)
    | st.floats(allow_nan=False, allow_infinity=False)
    | LETTERS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(LETTERS, inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.slow
@settings(deadline=None, max_examples=60, suppress_health_check=list(HealthCheck))
@given(
    st.lists(ODD, min_size=1, max_size=25),
    st.dictionaries(LETTERS, JSON, max_size=3),
    st.booleans(),
)
def test_what_is_kept_of_any_trace_is_the_trace(
    tmp_path: Path, events: list[Event], top: dict[str, Any], zipped: bool
) -> None:
    top.pop("traceEvents", None)
    raw = json.dumps({**top, "traceEvents": events}).encode()
    path = tmp_path / "any.json"
    path.write_bytes(gzip.compress(raw) if zipped else raw)
    first = open_trace(path, later=at_once)
    assert not first.timeline_tracks
    again = open_trace(path, later=never)
    assert again.timeline_tracks
    assert_right(again, path)


def test_what_json_cannot_say_is_not_kept(tmp_path: Path, cache: Path) -> None:
    path = tmp_path / "nan.json"
    path.write_text(document(2, loss=float("nan")))
    open_trace(path, later=at_once)
    again = open_trace(path, later=at_once)
    assert np.isnan(again.trace.metadata["loss"])
    assert kept(cache) == []


def test_a_file_that_is_cut_off_keeps_its_warnings(tmp_path: Path, loads: list[Path]) -> None:
    path = tmp_path / "cut.json"
    path.write_text(document(5)[:-150])
    open_trace(path, later=at_once)
    again = taken_again(path, loads)
    assert again.trace.warnings
    assert_right(again, path)


def test_nothing_can_be_written_into_what_was_kept(path: Path) -> None:
    open_trace(path, later=at_once)
    again = open_trace(path)
    arrays = [getattr(again.trace, each.name) for each in fields(again.trace)]
    for array in [*arrays, again.timeline_tracks[0].index.start, again.ops.calls]:
        if isinstance(array, np.ndarray):
            with pytest.raises(ValueError, match="read-only"):
                array[:1] = 0


def test_tables_are_made_of_columns_that_cannot_be_written_to(path: Path) -> None:
    open_trace(path, later=at_once)
    again = open_trace(path)
    assert_same(analyse(again.trace), analyse(load_trace(path)))
    assert_same(timeline_tracks(again.trace), again.timeline_tracks)


@pytest.mark.slow
def test_damage_anywhere_is_mended_without_a_word(
    path: Path, cache: Path, loads: list[Path]
) -> None:
    open_trace(path, later=at_once)
    (file,) = kept(cache)
    whole = file.read_bytes()
    choose = np.random.default_rng(5)
    # All of the start and of the header's first bytes, and some of everything else.
    places = [*range(130), *choose.integers(0, len(whole), 250).tolist()]
    expected = open_trace(path)
    for place in places:
        damaged = bytearray(whole)
        damaged[place] ^= 1 << int(choose.integers(8))
        file.write_bytes(damaged)
        assert_same(read_again(path, loads), expected)
        assert file.read_bytes() == whole


@pytest.mark.slow
def test_what_is_cut_off_or_grown_is_mended(path: Path, cache: Path, loads: list[Path]) -> None:
    open_trace(path, later=at_once)
    (file,) = kept(cache)
    whole = file.read_bytes()
    choose = np.random.default_rng(6)
    lengths = [0, 1, 91, 92, len(whole) - 1, *choose.integers(0, len(whole), 30).tolist()]
    for text in [whole[:length] for length in lengths] + [whole + b"\0", whole + whole]:
        file.write_bytes(text)
        read_again(path, loads)
        assert file.read_bytes() == whole


def test_what_other_code_kept_is_not_used(
    path: Path, cache: Path, loads: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    open_trace(path, later=at_once)
    monkeypatch.setattr(opened, "_code", lambda: b"another")
    read_again(path, loads)
    taken_again(path, loads)
    assert len(kept(cache)) == 1


def changed_in_the_middle(path: Path) -> str:
    """The text of ``path`` but for one digit, far from both ends."""
    text = path.read_text()
    assert len(text) > 4 * 64 * 1024
    middle = text.index('"dur": 90.125', len(text) // 2)
    return text[:middle] + '"dur": 91.125' + text[middle + 13 :]


@pytest.mark.parametrize("in_place", [True, False])
def test_a_file_that_was_changed_is_read_again(
    path: Path, loads: list[Path], in_place: bool
) -> None:
    path.write_text(document(150))
    open_trace(path, later=at_once)
    before = path.stat()
    other = path if in_place else path.with_name("other.json")
    other.write_text(changed_in_the_middle(path))
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.replace(path)
    after = path.stat()
    assert (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    assert_right(read_again(path, loads), path)


def test_a_file_that_changes_is_not_kept_and_its_arguments_are_refused(
    path: Path, cache: Path
) -> None:
    work: list[Callable[[], None]] = []
    open_trace(path, later=work.append)
    path.write_text(document(3))
    work[0]()
    assert kept(cache) == []
    open_trace(path, later=at_once)
    again = open_trace(path)
    path.write_text(document(3))
    with pytest.raises(TraceError, match="changed"):
        again.trace.read_arguments(0)


def test_one_file_under_two_names_is_kept_once(path: Path, cache: Path, loads: list[Path]) -> None:
    open_trace(path, later=at_once)
    link = path.with_name("link.json")
    link.symlink_to(path)
    assert taken_again(link, loads).trace.path == link
    assert len(kept(cache)) == 1


def test_a_directory_that_others_can_write_to_is_left_alone(
    path: Path, cache: Path, loads: list[Path]
) -> None:
    open_trace(path, later=at_once)
    (file,) = kept(cache)
    cache.chmod(0o770)
    before = file.stat()
    read_again(path, loads)
    assert file.stat() == before


def test_a_link_in_the_place_of_the_directory_is_not_followed(
    path: Path, cache: Path, loads: list[Path]
) -> None:
    open_trace(path, later=at_once)
    cache.rename(cache.with_name("elsewhere"))
    cache.symlink_to(cache.with_name("elsewhere"))
    read_again(path, loads)


def test_a_cache_that_cannot_be_made_is_no_failure(path: Path, cache: Path) -> None:
    cache.parent.write_text("a file where the directory should be")
    assert_right(open_trace(path, later=at_once), path)
    assert_right(open_trace(path, later=at_once), path)


def full(*_: Any) -> None:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        pytest.param("perftui.trace.cache.write_record", full, id="a full disk"),
        pytest.param("shutil.disk_usage", lambda _: USAGE._replace(free=1 << 30), id="little room"),
        pytest.param("perftui.analysis.open_trace._LONGEST_S", -1.0, id="a slow disk"),
        pytest.param("perftui.analysis.open_trace.FEWEST_ROWS", 100_000, id="a short trace"),
    ],
)
def test_what_should_not_be_kept_leaves_nothing_behind(
    path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: Any
) -> None:
    monkeypatch.setattr(name, value)
    assert_right(open_trace(path, later=at_once), path)
    assert kept(cache) == []


def test_a_fault_of_ours_is_not_hidden(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise TypeError("ours")

    monkeypatch.setattr("perftui.trace.cache.write_record", broken)
    with pytest.raises(TypeError, match="ours"):
        open_trace(path, later=at_once)


def test_leaving_ends_the_writing(path: Path, cache: Path) -> None:
    work: list[Callable[[], None]] = []
    left = threading.Event()
    open_trace(path, cancelled=left.is_set, later=work.append)
    left.set()
    work[0]()
    assert kept(cache) == []


def test_a_process_keeps_the_trace_before_it_ends(path: Path, cache: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from perftui.analysis import open_trace as opened\n"
        "opened.FEWEST_ROWS = 1\n"
        "opened.open_trace(Path(sys.argv[1]))"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], check=True)
    assert len(kept(cache)) == 1


def test_writers_at_one_time_do_not_mix(path: Path, cache: Path, loads: list[Path]) -> None:
    work: list[Callable[[], None]] = []
    for _ in range(6):
        open_trace(path, later=work.append)
    threads = [threading.Thread(target=each) for each in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert_right(taken_again(path, loads), path)
    assert len(kept(cache)) == 1


def test_what_was_used_longest_ago_gives_way(tmp_path: Path, cache: Path) -> None:
    paths = [tmp_path / f"{name}.json" for name in "abc"]
    for age, each in enumerate(paths):
        each.write_text(document(20))
        open_trace(each, later=at_once)
        newest = max(kept(cache), key=lambda file: file.stat().st_mtime_ns)
        os.utime(newest, (1000 + age, 1000 + age))
    open_trace(paths[0])
    size = kept(cache)[0].stat().st_size
    another = tmp_path / "d.json"
    another.write_text(document(20))
    record = opened._packed(open_trace(another, later=never), cache)
    assert record is not None
    assert Store(cache, most_bytes=3 * size + size // 2).keep(another, bytes(32), record, bool)
    store = Store(cache)
    there = [store._place(each).exists() for each in (*paths, another)]
    assert there == [True, False, True, True]


def test_one_that_is_larger_than_all_may_be_is_not_kept(path: Path, cache: Path) -> None:
    record = opened._packed(open_trace(path, later=never), cache)
    assert record is not None
    assert not Store(cache, most_bytes=1000).keep(path, bytes(32), record, bool)
    assert kept(cache) == []


def test_what_a_killed_writer_left_is_removed(path: Path, cache: Path) -> None:
    cache.mkdir(parents=True, mode=0o700)
    old, new = cache / "old.partial", cache / "new.partial"
    for each in (old, new):
        each.write_bytes(b"half")
    os.utime(old, (1000, 1000))
    open_trace(path, later=at_once)
    assert not old.exists()
    assert new.exists()


@pytest.mark.parametrize("word", ["off", "0", "OFF"])
def test_it_can_be_turned_off(
    path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    monkeypatch.setenv("PERFTUI_CACHE", word)
    monkeypatch.setenv("HOME", str(path.parent))
    open_trace(path, later=at_once)
    assert kept(cache) == []
    assert not (path.parent / ".cache").exists()


def test_a_trace_that_is_previewed_is_so_once_more_when_it_is_whole(path: Path) -> None:
    seen: list[Trace] = []
    open_trace(path, preview=seen.append, later=never)
    assert not seen or len(seen[-1]) == len(load_trace(path))
