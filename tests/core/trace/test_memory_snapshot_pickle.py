"""Nothing in a pickle is imported or called, and its numbers allocate nothing."""

from __future__ import annotations

import pickle
import pickletools
import struct
import sys
import tracemalloc
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from perftui.trace.memory_pickle import PlainPickle, load_memory_snapshot
from perftui.trace.model import TraceError

PROTOCOLS = range(2, pickle.HIGHEST_PROTOCOL + 1)
HELD_FOR_EACH = 96
"""Bytes held at most for each byte of the file, and 1 MiB."""

CALLS: list[str] = []


def record(*args: object) -> str:
    """What a hostile pickle wants called."""
    CALLS.append(repr(args))
    return "called"


class Reduced:
    """Pickled as a call of ``record``."""

    def __reduce__(self) -> Any:
        return record, ("reduce",)


class Stateful:
    """Pickled as an object that is built, and whose state is set by a method."""

    def __init__(self) -> None:
        self.value = 1

    def __setstate__(self, state: object) -> None:
        record("setstate", state)


class WithArguments:
    def __getnewargs_ex__(self) -> Any:
        return ("new",), {"key": 1}

    def __new__(cls, *args: object, **kwargs: object) -> WithArguments:
        if args:
            record("new", args, kwargs)
        return super().__new__(cls)


class Text(str):
    __slots__ = ()


@contextmanager
def at_most(size: int) -> Iterator[None]:
    """Fails where more than so many bytes are held at once."""
    tracemalloc.start()
    try:
        yield
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < size, peak


def allowance(path: Path) -> int:
    return HELD_FOR_EACH * path.stat().st_size + 2**20


def read(data: bytes) -> object:
    pickled = PlainPickle(data)
    damage = pickled.run(lambda _: None)
    if damage is not None:
        raise TraceError(f"it is damaged at byte {damage.at}: {damage.why}")
    return pickled.stack[-1]


@pytest.fixture(autouse=True)
def nothing_is_called() -> Iterator[None]:
    CALLS.clear()
    before = set(sys.modules)
    yield
    assert CALLS == []
    assert {name for name in set(sys.modules) - before if "antigravity" in name} == set()


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: (
        st.lists(inner)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.text(), inner, max_size=4)
    ),
    max_leaves=30,
)


@pytest.mark.slow
@given(plain, st.sampled_from(PROTOCOLS))
@example(
    {"a": [(), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4), 255, 65535, -1, 2**40, "é\n\\u", "𝄞"]}, 2
)
@example({"a": "x" * 70_000, "b": [2**2000, -(2**70), 1e300]}, 2)
@settings(deadline=None)
def test_plain_values_come_back_as_python_reads_them(value: object, protocol: int) -> None:
    data = pickle.dumps(value, protocol)
    assert read(data) == value
    assert repr(read(pickletools.optimize(data))) == repr(pickle.loads(data))  # noqa: S301 - ours


def test_shared_values_stay_shared() -> None:
    frame = {"line": 1}
    first, second = read(pickle.dumps([frame, frame]))  # type: ignore[misc]
    assert first is second


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    "value",
    [
        record,
        Reduced(),
        Stateful(),
        WithArguments(),
        Text("text"),
        OrderedDict(a=1),
        Path("file"),
        complex(1, 2),
        {1, 2},
        frozenset({1}),
        b"bytes",
        bytearray(b"bytes"),
        print,
        int,
    ],
    ids=lambda value: type(value).__name__,
)
def test_everything_else_is_refused(value: object, protocol: int) -> None:
    data = pickle.dumps({"segments": [value], "device_traces": []}, protocol)
    with pytest.raises(TraceError, match="refused"):
        read(data)


class Opcode:
    """Instructions by name, spelled by hand."""

    GLOBAL = b"cbuiltins\neval\n"
    ARGUMENT = b"X\x05\x00\x00\x001 + 1"


HOSTILE = {
    "GLOBAL": Opcode.GLOBAL + b".",
    "REDUCE": Opcode.GLOBAL + b"(" + Opcode.ARGUMENT + b"tR.",
    "REDUCE alone": b"(" + Opcode.ARGUMENT + b"tR.",
    "STACK_GLOBAL": b"\x80\x04\x8c\x0bantigravity\x8c\x03fly\x93.",
    "INST": b"(" + Opcode.ARGUMENT + b"ibuiltins\neval\n.",
    "OBJ": b"(" + Opcode.GLOBAL + Opcode.ARGUMENT + b"o.",
    "NEWOBJ": b"\x80\x02" + Opcode.GLOBAL + b")\x81.",
    "NEWOBJ alone": b"\x80\x02N)\x81.",
    "NEWOBJ_EX": b"\x80\x04" + Opcode.GLOBAL + b")}\x92.",
    "NEWOBJ_EX alone": b"\x80\x04N)}\x92.",
    "BUILD": b"\x80\x02}}b.",
    "PERSID": b"Pid\n.",
    "BINPERSID": b"X\x02\x00\x00\x00idQ.",
    "EXT1": b"\x80\x02\x82\xf0.",
    "EXT2": b"\x80\x02\x83\xf0\x00.",
    "EXT4": b"\x80\x02\x84\xf0\x00\x00\x00.",
    "NEXT_BUFFER": b"\x80\x05\x97.",
    "READONLY_BUFFER": b"\x80\x05]\x98.",
    "DUP": b"]2.",
    "POP": b"]]0.",
    "POP_MARK": b"](1.",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_each_instruction_that_is_not_plain_is_named_and_refused(name: str) -> None:
    with pytest.raises(TraceError, match="refused") as error:
        read(HOSTILE[name])
    if name not in {"REDUCE", "NEWOBJ", "NEWOBJ_EX", "OBJ"}:
        assert name.split()[0] in str(error.value)


def test_what_was_to_be_imported_is_said_in_safe_text(tmp_path: Path) -> None:
    for data in (b"cos\nsys\x1btem\n.", b"\x80\x04\x8c\x02os\x8c\x07sys\x1btem\x93."):
        path = tmp_path / "hostile.pickle"
        path.write_bytes(data)
        with pytest.raises(TraceError) as error:
            load_memory_snapshot(path)
        assert "os.sys\\x1btem" in str(error.value)
        assert "nothing was run" in str(error.value)
        assert "hostile.pickle" in str(error.value)


@pytest.mark.parametrize(
    "data",
    [
        b"]r\xff\xff\xff\x7f.",
        b"]p4294967295\n.",
        b"]q\x01.",
        b"]p" + b"9" * 100_000 + b"\n.",
        b"j\xff\xff\xff\xff.",
        b"h\x00.",
        b"g-1\n.",
        b"gx\n.",
        b"\x8d\xff\xff\xff\xff\xff\xff\xff\x7f.",
        b"X\xff\xff\xff\xff.",
        b"\x8c\xff.",
        b"\x8b\xff\xff\xff\x7f.",
        b"\x8b\xff\xff\xff\xff.",
        b"\x8a\xff.",
        b"I" + b"9" * 100_000 + b"\n.",
        b"L" + b"9" * 100_000 + b"L\n.",
        b"F" + b"9" * 100_000 + b"\n.",
        b"Ix\n.",
        b"Ino end",
        b"\x80\x06N.",
        b"\xfeN.",
        b".",
        b"]NN\x86s.",
        b"N]a.",
        b"}N]s.",
        b"}](NNu.",
        b"}(X\x01\x00\x00\x00au.",
        b"a.",
        b"e.",
        b"]e.",
        b"s.",
        b"u.",
        b"t.",
        b"\x87.",
        b"\x8c\x02\xff\xfe.",
        b"V\\u12\n.",
    ],
)
def test_lengths_and_indices_that_the_file_does_not_hold_are_damage(data: bytes) -> None:
    with at_most(2**20), pytest.raises(TraceError, match=r"damaged at byte \d+"):
        read(data)


def test_keys_are_text_so_that_none_can_be_made_to_collide_or_nest() -> None:
    for key in (1, None, (1,), 1.5):
        with pytest.raises(TraceError, match="key is not text"):
            read(pickle.dumps({key: 1}))
    # Pairs of pairs, sixty levels of one shared half: hashing it would take 2**60 steps.
    pairs = b"".join(b"q%ch%c\x86" % (level, level) for level in range(60))
    with pytest.raises(TraceError, match="key is not text"):
        read(b"})" + pairs + b"Ns.")


TO_TRACES = b"}(\x8c\x0ddevice_traces]"
TO_EVENTS = TO_TRACES + b"]("

BOMBS = {
    "dicts": b"}" * 100_000,
    "lists": b"]" * 100_000,
    "marks": b"(" * 100_000,
    "memo": b"N" + b"\x94" * 100_000,
    "dicts in the memo": b"}\x94" * 50_000,
    "dicts of one": b"\x8c\x01a\x94" + b"}h\x00Ns" * 20_000,
    "lists of one": b"]Na" * 40_000,
    "tuples in tuples": b")" + b"\x85" * 100_000,
    "lists in lists": b"]" * 50_000 + b"a" * 49_999,
    "dicts in dicts": b"\x8c\x01a\x94" + b"}h\x00" * 20_000 + b"N" + b"s" * 20_000,
    "marks and tuples": b"(t" * 50_000,
    "floats": b"G\0\0\0\0\0\0\0\1" * 50_000,
    "long integers": b"\x8a\x08\1\2\3\4\5\6\7\x08" * 40_000,
    "wide text": b"".join(
        b"X" + struct.pack("<I", 104) + b"a" * 100 + "𝄞".encode() for _ in range(4_000)
    ),
    "doubled references": b"]\x94" + b"h\x00h\x00\x86\x94" * 30_000,
    "a list in itself": b"]\x94" + b"h\x00a" * 100_000,
    "open segments": b"](" + b"}" * 100_000,
    "open events": TO_EVENTS + b"}" * 100_000,
    "events in the list": TO_EVENTS + b"}a" * 50_000,
    "open traces": TO_TRACES + b"]" * 100_000,
    "keys of the top": b"}" + b"\x8c\x01a\x94N" + b"h\x00N" * 40_000,
    "marks above the top": b"}(\x8c\x08segments](" + b"(" * 100_000,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BOMBS)
@pytest.mark.parametrize("ending", [b"", b"."])
def test_memory_is_bounded_by_the_size_of_the_file(
    name: str, ending: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "bomb.pickle"
    path.write_bytes(BOMBS[name] + ending)
    with at_most(allowance(path)), pytest.raises(TraceError):
        load_memory_snapshot(path)


def many(rows: bytes, key: bytes) -> bytes:
    """A snapshot whose list under ``key`` names one row half a million times."""
    return b"}(\x8c\x04addr\x94N" + b"\x8c" + bytes([len(key)]) + key + rows + b"u."


ONE_EVENT = b"}(\x8c\x06actionX\x05\x00\x00\x00allocu\x94"


@pytest.mark.slow
def test_one_event_named_often_is_bounded_too(tmp_path: Path) -> None:
    path = tmp_path / "events.pickle"
    path.write_bytes(many(b"](](" + ONE_EVENT + b"h\x01" * 100_000 + b"ee", b"device_traces"))
    with at_most(allowance(path)):
        assert len(load_memory_snapshot(path).traces[0]) == 100_001


@pytest.mark.slow
def test_one_block_named_often_is_bounded_too(tmp_path: Path) -> None:
    path = tmp_path / "blocks.pickle"
    block = {"address": 0, "size": 512, "requested_size": 512, "state": "inactive"}
    sizes = dict.fromkeys(("total_size", "allocated_size", "active_size"), 512)
    segment = {"device": 0, "address": 0, **sizes, "blocks": [block] * 100_000}
    path.write_bytes(pickle.dumps([segment]))
    with at_most(allowance(path)):
        assert len(load_memory_snapshot(path).blocks) == 100_000
    path.write_bytes(pickle.dumps([{**segment, "blocks": []}] * 100_000))
    with at_most(allowance(path)):
        assert len(load_memory_snapshot(path).segments) == 100_000


def test_one_list_named_often_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "lists.pickle"
    events = b"](" + ONE_EVENT * 1 + b"h\x01" * 3_000 + b"e\x94"
    path.write_bytes(many(b"](" + events + b"h\x02" * 3_000 + b"e", b"device_traces"))
    with pytest.raises(TraceError, match="more events than it has bytes"):
        load_memory_snapshot(path)

    block = {"size": 512, "state": "inactive"}
    segment = {"device": 0, "address": 0, "total_size": 512, "blocks": [block] * 3_000}
    path.write_bytes(pickle.dumps({"segments": [segment] * 3_000}))
    with pytest.raises(TraceError, match="more blocks than it has bytes"):
        load_memory_snapshot(path)


@pytest.mark.slow
def test_deep_nesting_neither_recurses_nor_crashes() -> None:
    depth = 300_000
    value = read(b"]" * depth + b"a" * (depth - 1) + b".")
    for _ in range(depth - 1):
        assert isinstance(value, list)
        value = value[0] if value else None
    assert value == []
