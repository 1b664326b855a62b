"""Small traces of every kind of file, and ways to damage them. The same seed damages the same."""

import gzip
import json
import random
import re
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

from perftui.analysis.analyse import analyse
from perftui.trace.formats import load_trace
from perftui.trace.model import Trace, TraceError

Event = dict[str, Any]


@dataclass(frozen=True)
class Row:
    """What the loader must say of an event."""

    name: str
    start: int
    duration: int
    number: int


@dataclass(frozen=True)
class Specimen:
    """An undamaged file."""

    head: bytes
    events: tuple[bytes, ...]
    separator: bytes
    tail: bytes
    rows: tuple[Row | None, ...]
    """For each event, the row it becomes."""
    pack: Callable[[bytes], bytes] = bytes

    @property
    def text(self) -> bytes:
        """The file before packing."""
        return self.head + self.separator.join(self.events) + self.tail

    def span(self, number: int) -> tuple[int, int]:
        """Where in the text one event stands."""
        before = sum(len(event) + len(self.separator) for event in self.events[:number])
        begin = len(self.head) + before
        return begin, begin + len(self.events[number])

    def surrounded(self, number: int) -> bytes:
        """The text of one event with the events beside it."""
        return self.separator.join(self.events[number - 1 : number + 2])


def _events(times: list[str], more: bool = False) -> list[Event]:
    found: list[Event] = [
        {"ph": "M", "name": "process_name", "pid": 9, "tid": 0, "args": {"name": "python"}},
        {"ph": "M", "name": "thread_name", "pid": 9, "tid": 9, "args": {"name": "thread 9 (py)"}},
    ]
    for number, ts in enumerate(times):
        where = {"cat": "cpu_op", "pid": 9, "tid": 9}
        args: dict[str, Any] = {"n": number, "Input Dims": [[number, 2], []], "file": "a\\b\n"}
        if number % 4 == 2:
            where["cat"] = "cuda_runtime"
            args |= {"correlation": number, "External id": number}
        elif number % 4 == 3:
            where = {"cat": "kernel", "pid": 0, "tid": 7}
            args |= {"device": 0, "stream": 7, "correlation": number - 1, "grid": [1, 2, 3]}
        if number % 6 == 1:
            where["cat"] = "user_annotation"
        name = f"ProfilerStep#{number}" if number % 6 == 1 else f"op{number}, ünï"
        found.append({"ph": "X", **where, "name": name, "ts": ts, "dur": "@8.5", "args": args})
        if more:
            found += _companions(ts, number)
    return found


def _companions(ts: str, number: int) -> list[Event]:
    flow = {"id": number, "pid": 9, "tid": 9, "ts": ts, "cat": "ac2g", "name": "ac2g"}
    memory = {"Total Allocated": 9, "Bytes": -4, "Device Id": 0, "Addr": 2**63 + 1}
    other = {"pid": 9, "tid": 9, "ts": ts}
    return [
        {"ph": "s", **flow},
        {"ph": "f", **flow, "bp": "e"},
        {"ph": "i", "name": "[memory]", **other, "s": "t", "args": memory},
        {"ph": "C", "name": "Queue", **other, "args": {"depth": number}},
    ]


def _bare(text: bytes) -> bytes:
    parts = text.split(b"@")
    return parts[0] + b"".join(part.replace(b'"', b"", 1) for part in parts[1:])


def _row(event: Event) -> Row | None:
    if event["ph"] != "X":
        return None
    start, duration = (int(Decimal(event[key][1:]) * 1000) for key in ("ts", "dur"))
    return Row(event["name"], start, duration, event["args"]["n"])


def _specimen(
    events: list[Event],
    indent: int | None = None,
    around: tuple[bytes, bytes] = (
        b'{"schemaVersion": 1, "traceEvents": [\n',
        b'\n], "traceName": "t"}',
    ),
    pack: Callable[[bytes], bytes] = bytes,
) -> Specimen:
    # Times are written as text that begins with @, and become bare numbers.
    spelled = (json.dumps(event, indent=indent, ensure_ascii=False) for event in events)
    texts = tuple(_bare(text.replace('"@', "@").encode()) for text in spelled)
    rows = tuple(_row(event) for event in events)
    return Specimen(around[0], texts, b",\n ", around[1], rows, pack)


def _times(base: int = 0, digits: int = 3) -> list[str]:
    return [f"@{Decimal(base) + 10 * i + Decimal(7 * i % 8) / 8:.{digits}f}" for i in range(6)]


def _legacy() -> list[Event]:
    spelled = {"cpu_op": "Operator", "cuda_runtime": "Runtime", "kernel": "Kernel"}
    events = _events(_times(1_623_143_089_861_000, 0))
    return [{**e, "cat": spelled.get(e["cat"], e["cat"])} if "cat" in e else e for e in events]


def _words() -> list[Event]:
    words = {9: "CPU functions", 0: "CUDA functions"}
    events = [{**event, "pid": words[event["pid"]]} for event in _events(_times())]
    return [{key: value for key, value in event.items() if key != "cat"} for event in events]


def _members(text: bytes) -> bytes:
    cuts = (0, 700, 701, 1500, len(text))
    parts = [text[begin:end] for begin, end in pairwise(cuts)]
    return b"".join(gzip.compress(part, mtime=0) for part in parts)


_AROUND = (
    b'{"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "A"}, {"id": 1}],\n'
    b'"distributedInfo": {"rank": 0, "pg": [{"name": "x"}]}, "traceEvents": [',
    b'],\n"memory": [{"id": 3, "name": "}, {"}], "list": [[], {}], "traceName": "C:\\\\a.json"}\n',
)

KINDS: dict[str, Specimen] = {
    "one line": _specimen(_events(_times())),
    "one key a line": _specimen(_events(_times()), 1),
    "legacy categories": _specimen(_legacy()),
    "list": _specimen(_events(_times()), 1, (b"[", b"]\n")),
    "string pids": _specimen(_words()),
    "absolute": _specimen(_events(_times(1_712_195_495_502_094)), 1),
    "nanoseconds": _specimen(
        _events([f"{ts[:-3]}{i:03}" for i, ts in enumerate(_times(17 * 10**14))])
    ),
    "gzip": _specimen(_events(_times()), pack=lambda text: gzip.compress(text, mtime=0)),
    "members": _specimen(_events(_times()), 1, pack=_members),
    "fields around": _specimen(_events(_times()), 1, _AROUND),
    "companions": _specimen(_events(_times(), more=True)),
}


def _cut(text: bytes, chance: random.Random) -> bytes:
    return text[: chance.randrange(len(text) + 1)]


def _flip(text: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(text))
    return text[:at] + bytes([text[at] ^ chance.randrange(1, 256)]) + text[at + 1 :]


def _piece(text: bytes, chance: random.Random) -> tuple[int, int]:
    begin = chance.randrange(len(text))
    return begin, min(len(text), begin + chance.choice([1, 2, 7, 40, 300, 1500]))


def _delete(text: bytes, chance: random.Random) -> bytes:
    begin, end = _piece(text, chance)
    return text[:begin] + text[end:]


def _random(text: bytes, chance: random.Random) -> bytes:
    return _put(text, chance, chance.randbytes(chance.choice([1, 3, 50])))


def _duplicate(text: bytes, chance: random.Random) -> bytes:
    begin, end = _piece(text, chance)
    return _put(text, chance, text[begin:end])


def _swap(text: bytes, chance: random.Random) -> bytes:
    a, b, c, d = sorted(chance.randrange(len(text) + 1) for _ in range(4))
    return text[:a] + text[c:d] + text[b:c] + text[a:b] + text[d:]


def _put(text: bytes, chance: random.Random, added: bytes) -> bytes:
    at = chance.randrange(len(text) + 1)
    return text[:at] + added + text[at:]


MARKS = (b'"', b'""', b"\\", b"\\\\", b'\\"', b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xef\xbb\xbf")
MARKS += (b"\x00", b"\x1b[2J", b"\n", b"\r", b"\x85", b"\xe2\x80\xae", b"\\ud800", b"\\u12")
MARKS += (b"[", b"]", b"{", b"}", b",", b":", b"]}", b"}]", b"},{", b'], "x": 1', b"{}", b"[{}]")
WORDS = (b"NaN", b"N/A", b"-nan", b"Infinity", b"null", b"true", b"None", b"[1]", b'{"a": 1}', b"")
WORDS += (b"-5", b"-0.5", b'"12.5"', b'"soon"', b"1e9", b"1e400", b"1e99999999999999999999")
WORDS += (
    b"9" * 30,
    b"9" * 5000,
    b"864000000000.5",
    b"-864000000000.5",
    b'"C:\\dir\\"',
    b"2000000000",
)


def _mark(text: bytes, chance: random.Random) -> bytes:
    return _put(text, chance, chance.choice(MARKS))


def _value(text: bytes, chance: random.Random) -> bytes:
    """Another value in place of one: times, durations and ids above all."""
    key = chance.choice([b'"ts": ', b'"dur": ', b'"pid": ', b'"tid": ', b'": '])
    places = [match.start() for match in re.finditer(key, text)]
    if not places:
        return _mark(text, chance)
    begin = chance.choice(places) + len(key)
    end = min((at for mark in b",}\n" if (at := text.find(mark, begin)) >= 0), default=len(text))
    return text[:begin] + chance.choice(WORDS) + text[end:]


Damage = Callable[[bytes, random.Random], bytes]
OF_BYTES: tuple[Damage, ...] = (_cut, _flip, _delete, _random, _duplicate, _swap)
DAMAGES: tuple[Damage, ...] = (*OF_BYTES, _mark, _mark, _mark, _value, _value, _value)
LOCAL: tuple[Damage, ...] = (_flip, _random, _mark, _value)
"""These leave all events but one as they are, where they are done inside one."""


def wounded(raw: bytes, chance: random.Random, damages: Sequence[Damage] = OF_BYTES) -> bytes:
    """A file with one to three damages."""
    for _ in range(chance.choice([1, 1, 2, 3])):
        raw = chance.choice(damages)(raw, chance) or raw
    return raw


def damaged(specimen: Specimen, chance: random.Random) -> tuple[bytes, bytes]:
    """A file with one to three damages, and the text that can be had of it at best."""
    raw = specimen.text
    packed = specimen.pack is not bytes and chance.random() < 0.5
    if packed:
        raw = specimen.pack(raw)
    raw = wounded(raw, chance, DAMAGES)
    return (raw, _inflated(raw)) if packed else (specimen.pack(raw), raw)


def _inflated(raw: bytes) -> bytes:
    """As far as zlib comes, byte by byte; the file itself where it does not begin like gzip."""
    if not raw.startswith(b"\x1f\x8b"):
        return raw
    text, inflater = bytearray(), zlib.decompressobj(31)
    for byte in raw:
        if inflater.eof:
            if not byte:
                continue
            inflater = zlib.decompressobj(31)
        try:
            text += inflater.decompress(bytes([byte]))
        except zlib.error:
            break
    return bytes(text)


def opened(path: Path, raw: bytes) -> Trace | None:
    """The trace, analysed; None if it is refused, in words that name the file."""
    # Some file systems wait for the disk where a file is overwritten: more than twice as long.
    path.unlink(missing_ok=True)
    path.write_bytes(raw)
    try:
        trace = load_trace(path)
        analyse(trace)
    except TraceError as error:
        refusal = str(error)
    else:
        return trace
    assert str(path) in refusal
    return None
