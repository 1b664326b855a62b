"""Makes a large trace of a real one, by repeating it one after the other.

    python tests/verify/benchmarks/repeat_trace.py SOURCE TARGET --megabytes 1000

Each copy begins where the one before ended: times are shifted exactly, correlation and external
ids and flows get numbers of their own, steps go on counting."""

import argparse
import gzip
import json
import math
import re
from decimal import Decimal
from pathlib import Path
from typing import BinaryIO

MB = 1_000_000
NUMBER = re.compile(rb'("(?:ts|correlation|External id|id)":\s*|ProfilerStep#)(-?\d+)')
UNSIGNED = 2**32 - 1
ARRAY = re.compile(rb'"traceEvents":\s*\[')


def parts(path: Path) -> tuple[bytes, bytes, bytes]:
    """Text before the events, of the events, and behind them."""
    raw = path.read_bytes()
    text = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
    begin = ARRAY.search(text)
    if begin is None:
        raise SystemExit(f"{path} has no traceEvents")
    events = json.JSONDecoder().raw_decode(text.decode(), begin.end() - 1)[1]
    return text[: begin.end()], text[begin.end() : events - 1].strip(), text[events - 1 :]


def span(events: bytes) -> int:
    """Whole microseconds from the first start to the last end, and a millisecond more."""
    loaded = [e for e in json.loads(b"[" + events + b"]", parse_float=Decimal) if e["ph"] == "X"]
    first = min(Decimal(event["ts"]) for event in loaded)
    last = max(Decimal(event["ts"]) + Decimal(event.get("dur", 0)) for event in loaded)
    return math.ceil(last - first) + 1000


def largest_id(events: bytes) -> int:
    """Largest number that must not come twice; an unsigned -1 stands for none."""
    found = (match for match in NUMBER.finditer(events) if not match.group(1).startswith(b'"ts"'))
    return max(
        (int(match.group(2)) for match in found if int(match.group(2)) < UNSIGNED), default=0
    )


def shifted(events: bytes, copy: int, period: int, ids: int) -> bytes:
    """The events as copy number ``copy``."""

    def moved(match: re.Match[bytes]) -> bytes:
        key, number = match.group(1), int(match.group(2))
        step = period if key.startswith(b'"ts"') else 1000 if key.startswith(b"P") else ids
        is_none = step == ids and not 0 < number < UNSIGNED
        return match.group() if is_none else key + str(number + copy * step).encode()

    return NUMBER.sub(moved, events)


def write(source: Path, file: BinaryIO, megabytes: int) -> int:
    """Write copies until the size is reached; how many there are."""
    head, events, tail = parts(source)
    period, ids = span(events), 1 + largest_id(events)
    copies = max(1, round(megabytes * MB / len(events)))
    file.write(head)
    for copy in range(copies):
        file.write(b",\n" if copy else b"\n")
        file.write(shifted(events, copy, period, ids))
    file.write(b"\n" + tail)
    return copies


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--megabytes", type=int, default=1000)
    options = parser.parse_args()
    with options.target.open("wb") as file:
        print(f"{write(options.source, file, options.megabytes)} copies")


if __name__ == "__main__":
    main()
