"""Speed and peak memory of loading and analysing a large trace.

    python tests/verify/benchmarks/bench_load.py [--megabytes 100]

Writes a synthetic trace of training on a GPU in the layout of today's PyTorch, plain and gzip, and
opens each in a fresh process. Megabytes are those of the uncompressed JSON."""

import argparse
import gzip
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

MB = 1_000_000
OPERATORS = ("aten::linear", "aten::addmm", "aten::relu", "aten::layer_norm", "aten::copy_")


def step_events(step: int, start: float) -> Iterator[dict[str, Any]]:
    """About 1,500 events: operators with launches inside, and the kernels."""
    kernel_name = "void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>"
    host = {"ph": "X", "pid": 4000, "tid": 4000}
    name = f"ProfilerStep#{step}"
    yield {**host, "cat": "user_annotation", "name": name, "ts": start, "dur": 9990.5, "args": {}}
    for index in range(370):
        identity, at = step * 1000 + index, round(start + 27 * index + 0.125, 3)
        arguments = {"External id": identity, "Record function id": 0, "Ev Idx": identity}
        for depth in range(2):
            yield {
                **host,
                "cat": "cpu_op",
                "name": OPERATORS[(index + depth) % len(OPERATORS)],
                "ts": round(at + depth, 3),
                "dur": 20.251 - 3 * depth,
                "args": arguments,
            }
        launch = {"External id": identity, "cbid": 211, "correlation": identity}
        call = {**host, "cat": "cuda_runtime", "name": "cudaLaunchKernel"}
        yield {**call, "ts": round(at + 4, 3), "dur": 5.017, "args": launch}
        place = {"device": 0, "context": 1, "stream": 7, "correlation": identity}
        shape = {"grid": [128, 1, 1], "block": [256, 1, 1], "registers per thread": 32}
        yield {
            "ph": "X",
            "cat": "kernel",
            "name": f"{kernel_name}, {index % 40}>",
            "pid": 0,
            "tid": 7,
            "ts": round(at + 12, 3),
            "dur": 8.064,
            "args": {"External id": identity, "queued": 0, **place, **shape},
        }


def write_trace(path: Path, megabytes: int) -> int:
    """Repeat steps up to the size; how many bytes were written."""
    written, step = 0, 0
    with path.open("w") as file:
        written += file.write('{"schemaVersion": 1, "traceEvents": [\n')
        while written < megabytes * MB:
            events = step_events(step, 10_000.0 * step)
            separator = ",\n" if step else ""
            text = separator + ",\n".join(json.dumps(event, indent=1) for event in events)
            written += file.write(text)
            step += 1
        written += file.write("\n]}\n")
    return written


def peak_mb() -> float:
    """Most memory this process has held, in MB (Linux counts in KiB)."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / MB


def measure(path: Path) -> None:
    """Open one file in this process and print what it took, as JSON."""
    from perftui.analysis.analyse import analyse
    from perftui.analysis.timeline.tracks import timeline_tracks
    from perftui.trace.formats import load_trace

    before = peak_mb()
    times = [time.process_time()]
    trace = load_trace(path)
    times.append(time.process_time())
    loaded = peak_mb()
    analyse(trace)
    times.append(time.process_time())
    tracks = timeline_tracks(trace)
    times.append(time.process_time())
    span = int(trace.end.max())
    for track in tracks:
        track.index.busy(0, span, 200)
        track.index.dominant(0, span, 200)
    times.append(time.process_time())
    row_time = time.process_time()
    trace.read_arguments(len(trace) // 2)
    phases = ("load", "analyse", "tracks", "first draw")
    seconds = {name: times[i + 1] - times[i] for i, name in enumerate(phases)}
    seconds["arguments"] = time.process_time() - row_time
    memory = {"start": before, "loaded": loaded, "analysed": peak_mb()}
    print(json.dumps({"rows": len(trace), "seconds": seconds, "memory": memory}))


def report(path: Path, size: int) -> None:
    """Measure in a fresh process and print a few lines."""
    command = [sys.executable, __file__, "--measure", str(path)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = json.loads(output)
    load = found["seconds"]["load"]
    rate = f"{size / MB / load:.0f} MB/s, {found['rows'] / load / 1e6:.2f} M rows/s"
    print(f"{path.name}: {size / MB:.0f} MB of JSON, {found['rows']:,} rows: {rate} (CPU time)")
    print("  seconds " + ", ".join(f"{key} {value:.3f}" for key, value in found["seconds"].items()))
    print("  peak MB " + ", ".join(f"{key} {value:.0f}" for key, value in found["memory"].items()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measure(options.measure)
        return
    with tempfile.TemporaryDirectory() as directory:
        plain = Path(directory) / "trace.json"
        size = write_trace(plain, options.megabytes)
        report(plain, size)
        packed = plain.with_suffix(".json.gz")
        with plain.open("rb") as source, gzip.open(packed, "wb", 1) as target:
            while piece := source.read(1 << 20):
                target.write(piece)
        plain.unlink()
        report(packed, size)


if __name__ == "__main__":
    main()
