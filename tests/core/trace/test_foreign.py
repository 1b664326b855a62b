"""Files that are no traces: what each is, in one line, and what to do."""

import bz2
import gzip
import io
import json
import lzma
import marshal
import pickle
import sqlite3
import tarfile
import zipfile
from pathlib import Path

import pytest

from perftui_tui.cli import main
from tests.ran import Capture, ran
from tests.traces.events import cpu, text_of, write

TRACE = text_of([cpu("aten::mm", 0, 80)]).encode()


def zipped(name: str) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        archive.writestr(name, TRACE)
    return held.getvalue()


def tarred() -> bytes:
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("trace.json"))
    return held.getvalue()


def chrome(cat: str, name: str = "f", ph: str = "X", **fields: object) -> bytes:
    """A trace of Chrome's format with one event, which is of no category of PyTorch."""
    event = {"ph": ph, "cat": cat, "name": name, "pid": 1, "tid": 1, "ts": 5, "dur": 3}
    return json.dumps({"traceEvents": [event], **fields}).encode()


FILES: dict[str, tuple[bytes, str]] = {
    "empty.json": (b"", "is empty: the profiler did not finish"),
    "twice.json.gz": (gzip.compress(gzip.compress(TRACE)), "is gzip within gzip"),
    "model.pt": (zipped("model/data.pkl"), "is a file of torch.save"),
    "old.pth": (b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M", "is a file of torch.save"),
    "a.npz": (zipped("a.npy"), "is an archive of NumPy arrays"),
    "a.zip": (zipped("trace.json"), "is a zip archive, not a trace of PyTorch: unpack it"),
    "a.tar": (tarred(), "is a tar archive"),
    "a.tar.gz": (gzip.compress(tarred()), "is a tar archive"),
    "a.json.bz2": (bz2.compress(TRACE), "is compressed with bzip2"),
    "a.json.xz": (lzma.compress(TRACE), "is compressed with xz"),
    "a.json.zst": (b"\x28\xb5\x2f\xfd" + bytes(9), "is compressed with zstd"),
    "lfs.json": (b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n", "git lfs pull"),
    "annex.json": (b"/annex/objects/MD5E-s1--a.json\n", "git annex get"),
    "page.json": (b'<!DOCTYPE html>\n<html lang="en">', "is a web page"),
    "denied.json": (b'<?xml version="1.0"?><Error/>', "is an XML document"),
    "flame.svg": (b'<?xml version="1.0"?>\n<svg width="1"/>', "is a picture"),
    "a.png": (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "is a picture"),
    "a.pdf": (b"%PDF-1.7\n", "is a PDF document"),
    "a.parquet": (b"PAR1\x15\x04", "is a Parquet table"),
    "a.feather": (b"ARROW1\0\0", "is an Arrow table"),
    "a.h5": (b"\x89HDF\r\n\x1a\n\0", "is an HDF5 file"),
    "a.npy": (b"\x93NUMPY\x01\0v\0", "is a NumPy array"),
    "a.safetensors": (bytes([80, *bytes(7)]) + b'{"a":{}}', "is a safetensors file"),
    "a.pkl": (pickle.dumps({"a": 1}), "is a Python pickle"),
    "perf.data": (b"PERFILE2h\0\0\0", "is a profile of Linux perf"),
    "events.out.tfevents.1": (bytes(21) + b"\x1a\x0dbrain.Event:2", "is an event file of Tensor"),
    "profile.out": (
        marshal.dumps({("a.py", 1, "f"): (1, 1, 0.1, 0.1, {})}),
        "is a profile of cPro",
    ),
    "memray.bin": (b"memray\0\x0b", "is a profile of memray"),
    "pprof.pb.gz": (gzip.compress(b"\n\x04\x08\x01\x10\x02\n\x04\x08"), "is a profile of pprof"),
    "xplane.pb": (b"\n\x9a\x1f\x08\x02\x12\t/host:CPU", "is a profile of JAX or TensorFlow"),
    "python": (b"\x7fELF\x02\x01\x01\0", "is a program"),
    "train.py": (b"#!/usr/bin/env python\n\nimport torch\n", "record it with `perftui FILE`"),
    "stacks.txt": (b"main;train;forward 12\nmain;eval 2\n", "is a list of folded stacks"),
    "kernels.csv": (b"Name;Calls;Time (ns)\na;1;2\n", "is a table"),
    "ncu.csv": (b'"ID";"Kernel Name";"Metric Value"\n"0";"k";"1"\n', "separated by commas"),
    "a.ipynb": (b'{"cells": [], "nbformat": 4}', "is a notebook"),
    "a.speedscope.json": (
        b'{"$schema": "https://www.speedscope.app/file-format-schema.json"}',
        "is a profile of Speedscope",
    ),
    "a.cpuprofile": (b'{"nodes": [{"id": 1, "callFrame": {}}]}', "is a CPU profile of Chrome"),
    "samply.json": (b'{"meta": {"preprocessedProfileVersion": 48}}', "of Firefox or samply"),
    "graph.json": (b'{"schema": "1.1.1-chakra.0.0.4", "nodes": []}', "open what export_chrome_tr"),
    "memory.json": (b"[[1, 2], [[0, 1], [2, 3]]]", "is a memory timeline of torch.profiler"),
    "report.json": (b'{\n  "schema": 1,\n  "findings": []}', "is a report of perftui"),
    "devtools.json": (chrome("devtools.timeline"), "is a trace of Chrome's DevTools"),
    "viz.json": (chrome("FEE", viztracer_metadata={}), "is a trace of VizTracer"),
    "py-spy.json": (chrome("py-spy", ph="B"), "is a trace of py-spy"),
    "tlparse.json": (chrome("dynamo_timed"), "is a trace of compiling by torch"),
    "ebpf.json": (chrome("syscall", "bpf_read"), "is a trace of eBPF"),
    "sched.json": (chrome("sched", "sched_switch"), "is a trace of the kernel's scheduler"),
    "clang.json": (chrome("", "Total ExecuteCompiler"), "is a trace of a compiler"),
    "ort.json": (chrome("Session"), "is a profile of ONNX Runtime"),
    "lines.json": (
        chrome("line", "train.py:3"),
        "no event of PyTorch (categories of its events: l",
    ),
    "settings.json": (b'{"lr": 0.1}', "it has no traceEvents"),
    "train.log": (b"epoch 1 loss 0.2\n", "it is not JSON"),
    "data.bin": (b"\x01\x02\0\x04" * 9, "it is binary data of a kind not known here"),
}


@pytest.mark.parametrize("name", FILES)
def test_what_it_is_and_what_to_do_is_said_in_one_line(
    tmp_path: Path, capsys: Capture, name: str
) -> None:
    content, words = FILES[name]
    path = tmp_path / name
    path.write_bytes(content)
    assert main(["report", str(path)]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(f"perftui: {path} ")
    assert said.err.count("\n") == 1
    assert words in said.err
    assert ";" in said.err or said.err.count(":") > 1


def test_a_database_and_a_directory_of_something_else_are_said(
    tmp_path: Path, capsys: Capture
) -> None:
    other = tmp_path / "other.sqlite"
    with sqlite3.connect(other) as connection:
        connection.execute("create table t (a)")
    for path, words in ((other, "not an Nsight Systems export"), (tmp_path, "neither a recorded")):
        assert main(["report", str(path)]) == 2
        said = capsys.readouterr().err
        assert words in said
        assert said.count("\n") == 1


def test_of_a_directory_whose_newest_file_does_not_open_the_others_are_used(
    tmp_path: Path, capsys: Capture
) -> None:
    good = write(tmp_path / "a.json", [cpu("aten::mm", 0, 80)])
    for name in ("b.json", "c.json"):
        (tmp_path / name).write_bytes(chrome("devtools.timeline"))
    good.touch()
    for path in sorted(tmp_path.iterdir())[1:]:
        path.touch()
    printed = ran(capsys, "report", "--full", str(tmp_path)).out
    assert printed.startswith(f"{good}\n")
    assert printed.count("is a trace of Chrome's DevTools") == 2
    assert f"left out: {tmp_path / 'c.json'}" in printed
    good.unlink()
    assert main(["report", str(tmp_path)]) == 2
    assert "is a trace of Chrome's DevTools" in capsys.readouterr().err
