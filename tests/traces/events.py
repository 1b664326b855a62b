"""Events and files the way Kineto writes them: times in microseconds."""

import atexit
import gzip
import itertools
import json
import shutil
import tempfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from perftui.analysis.analyse import analyse
from perftui.analysis.model import TraceAnalysis
from perftui.trace.formats import load_trace
from perftui.trace.model import Trace

Event = dict[str, Any]

_ON_DEVICE = {"kernel", "gpu_memcpy", "gpu_memset", "gpu_user_annotation"}
_numbers = itertools.count()


def event(name: str, ts: Any, dur: Any, cat: str = "cpu_op", tid: Any = 7, **args: Any) -> Event:
    """A complete event of device 0 or of process 500, as its category says."""
    pid = 0 if cat in _ON_DEVICE else 500
    where = {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid}
    return {**where, "ts": ts, "dur": dur, "args": args}


def cpu(name: str, ts: Any, dur: Any, cat: str = "cpu_op", tid: Any = 1, **args: Any) -> Event:
    """An event of a thread: an operator, unless a category is given."""
    return event(name, ts, dur, cat, tid, **args)


def mark(name: str, ts: Any, dur: Any, tid: Any = 1) -> Event:
    """A range that the script, PyTorch or our agent marks."""
    return event(name, ts, dur, "user_annotation", tid)


def call(name: str, ts: Any, dur: Any, **args: Any) -> Event:
    """A call of the CUDA runtime."""
    return cpu(name, ts, dur, "cuda_runtime", **args)


def frame(name: str, ts: Any, dur: Any) -> Event:
    """A Python function of a trace with stacks."""
    return cpu(name, ts, dur, "python_function")


def gpu(
    name: str,
    ts: Any,
    dur: Any,
    correlation: int = -1,
    cat: str = "kernel",
    stream: int = 7,
    device: int = 0,
    **args: Any,
) -> Event:
    """An event of a device: a kernel, unless a category is given."""
    place = {"device": device, "stream": stream, "correlation": correlation}
    return {**event(name, ts, dur, cat, stream, **place, **args), "pid": device}


def named(tid: Any, name: str) -> Event:
    """What the file calls a thread."""
    return {"ph": "M", "name": "thread_name", "pid": 500, "tid": tid, "args": {"name": name}}


def memory(ts: Any, size: int, allocated: int, device: int = 0, tid: Any = 1, **more: int) -> Event:
    """What PyTorch's allocator of a GPU says when it takes ``size`` bytes, or gives them back; of
    device -1 it is that of the CPU."""
    kind = 0 if device < 0 else 1
    args = {"Bytes": size, "Device Type": kind, "Device Id": device, "Total Allocated": allocated}
    where = {"cat": "cpu_instant_event", "pid": 500, "tid": tid, "ts": ts, "s": "t"}
    return {"ph": "i", "name": "[memory]", **where, "args": {**args, **more}}


def text_of(events: Iterable[Event], **fields: Any) -> str:
    """A file's text: the events, and other fields beside them."""
    return json.dumps({"schemaVersion": 1, **fields, "traceEvents": list(events)})


def write(path: Path, events: Iterable[Event], **fields: Any) -> Path:
    """Write that text, compressed where the name ends in ``.gz``."""
    text = text_of(events, **fields).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


def load(content: Any, name: str = "trace.json") -> Trace:
    """Load a document, or bytes as they are, from a file of its own that stays to the end."""
    path = _folder() / str(next(_numbers)) / name
    path.parent.mkdir()
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return load_trace(path)


def trace_of(*events: Event, **fields: Any) -> Trace:
    """Events loaded the way a file of them is."""
    return load(text_of(events, **fields).encode())


def analysis_of(*events: Event, **fields: Any) -> TraceAnalysis:
    """The tables of a trace of events."""
    return analyse(trace_of(*events, **fields))


@cache
def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="traces-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
