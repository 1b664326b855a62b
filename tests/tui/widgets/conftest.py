"""Small traces for the timeline."""

from pathlib import Path

import numpy as np
import pytest

from perftui.trace.model import NONE, Trace, Track


def _column(events, key, default, kind=np.int64):
    return np.asarray([event.get(key, default) for event in events], kind)


@pytest.fixture
def make_trace():
    """A trace from (name, track, start, duration) and keywords for the other columns.

    Track 0 is a thread, track 1 a stream of GPU 0. Events are to be given in the trace's order.
    """

    def make(*events):
        events = [
            dict(zip(("name", "track", "start", "duration"), event[:4], strict=True))
            | (event[4] if len(event) > 4 else {})
            for event in events
        ]
        names = tuple(dict.fromkeys(event["name"] for event in events))
        for event in events:
            event.setdefault("category", "kernel" if event["track"] else "cpu_op")
        categories = tuple(dict.fromkeys(event["category"] for event in events))
        small = np.int32
        return Trace(
            path=Path("trace.json"),
            start=_column(events, "start", 0),
            duration=_column(events, "duration", 0),
            name=np.asarray([names.index(event["name"]) for event in events], small),
            category=np.asarray([categories.index(e["category"]) for e in events], small),
            track=_column(events, "track", 0, small),
            correlation=_column(events, "correlation", NONE),
            external_id=_column(events, "external_id", NONE),
            bytes=_column(events, "bytes", NONE),
            parent=_column(events, "parent", NONE, small),
            depth=_column(events, "depth", 0, small),
            names=names,
            categories=categories,
            tracks=(Track("1", "7", "", "main"), Track("0", "7", "", "", device=0, stream=7)),
            origin=0,
            wall_origin=None,
            read_arguments=lambda row: {"Input Dims": [[row, 8]]},
        )

    return make
