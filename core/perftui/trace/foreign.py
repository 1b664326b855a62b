"""What a file is that was named by mistake, told by how it begins."""

from __future__ import annotations

import re
from pathlib import Path

from perftui.trace.model import TraceError

HEAD = 64 * 1024
"""Bytes in which a sign is looked for."""

_UNPACK = "unpack it, and open the trace inside"
RECORD = "open a file that torch.profiler exported"
_OWN_VIEWER = f"that tool has a viewer of its own; here, {RECORD}"
_EXPORTED = "open what export_chrome_trace wrote"

_SIGNS: tuple[tuple[str, bytes, str], ...] = (
    # What it is, how it begins, what to do.
    ("gzip within gzip", rb"\A\x1f\x8b", "unpack it once with gunzip, and open what comes out"),
    ("a file of torch.save", rb"\APK\x03\x04.{26}[^/]+/(data\.pkl|code/|version)", RECORD),
    ("an archive of NumPy arrays", rb"\APK\x03\x04.{26}\S+\.npy", RECORD),
    ("a zip archive", rb"\APK\x03\x04", _UNPACK),
    ("a tar archive", rb"\A.{257}ustar", _UNPACK),
    ("compressed with bzip2", rb"\ABZh\d", _UNPACK),
    ("compressed with xz", rb"\A\xfd7zXZ", _UNPACK),
    ("compressed with zstd", rb"\A\x28\xb5\x2f\xfd", _UNPACK),
    ("compressed with lz4", rb"\A\x04\x22\x4d\x18", _UNPACK),
    ("a 7-Zip archive", rb"\A7z\xbc\xaf", _UNPACK),
    ("a pointer of Git LFS", rb"\Aversion https://git-lfs", "fetch the file with git lfs pull"),
    ("a pointer of git-annex", rb"\A\S*/annex/objects/", "fetch the file with git annex get"),
    ("a web page", rb"(?i)\A\s*<(!doctype html|html)", "download the file itself, its raw form"),
    ("a picture", rb"\A(\x89PNG|\xff\xd8\xff|GIF8|RIFF|\s*<svg|\s*<\?xml.*<svg)", RECORD),
    ("an XML document", rb"\A\s*<\?xml", "it may be a server's answer in place of the file"),
    ("a PDF document", rb"\A%PDF", RECORD),
    ("a Parquet table", rb"\APAR1", RECORD),
    ("an Arrow table", rb"\A(ARROW1|FEA1)", RECORD),
    ("an HDF5 file", rb"\A\x89HDF", RECORD),
    ("a NumPy array", rb"\A\x93NUMPY", RECORD),
    ("a safetensors file", rb"\A.{6}\0\0\{", RECORD),
    ("a file of torch.save", rb"\A\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19\.", RECORD),
    ("a Python pickle", rb"\A\x80[\x02-\x05]", f"{RECORD}, or a memory snapshot of torch.cuda"),
    ("a profile of Linux perf", rb"\A(PERFILE2|2ELIFREP)", _OWN_VIEWER),
    ("an event file of TensorBoard", rb"\A.{12}.{0,16}brain\.Event:", f"{RECORD} beside it"),
    ("a profile of cProfile", rb"\A[{\xfb][)\xa9(]\x03", _OWN_VIEWER),
    ("a profile of memray", rb"\Amemray\0", _OWN_VIEWER),
    ("a profile of JAX or TensorFlow", rb"\A\n.{1,12}/(host|device):|hlo_module", _OWN_VIEWER),
    ("a profile of pprof", rb"\A\n[\x02-\x0c]\x08.{1,3}\x10", _OWN_VIEWER),
    ("a program", rb"\A(\x7fELF|MZ|\xcf\xfa\xed\xfe)", RECORD),
    ("a Python program", rb"\A(#[^\n]*\n|\s)*(\"\"\"|import |from [\w.]+ import )",
     "record it with `perftui FILE`"),
    ("a list of folded stacks", rb"\A[^;\n{]+(;[^;\n]+)+ \d+\n", "they have no times; " + RECORD),
    ("a table", rb"\A\"?[\w ./()%-]+\"?([;,\t])[^;,\t\n]*(\1[^;,\t\n]*)+\n",
     f"of tables only those that ncu prints are read, separated by commas; {RECORD}"),
    ("a notebook", rb"\"nbformat\"\s*:", "record the program that nbconvert makes of it"),
    ("a profile of Speedscope", rb"speedscope\.app/file-format", _OWN_VIEWER),
    ("a CPU profile of Chrome or Node.js", rb"\"(timeDeltas|callFrame)\"\s*:", _OWN_VIEWER),
    ("a profile of Firefox or samply", rb"\"preprocessedProfileVersion\"\s*:", _OWN_VIEWER),
    ("a graph of ExecutionTraceObserver", rb"\"schema\"\s*:\s*\"\d[^\"]*chakra", _EXPORTED),
    ("a memory timeline of torch.profiler", rb"\A\s*\[\s*\[\s*\d", _EXPORTED),
    ("a report of perftui", rb"\A\{\s*\"schema\"\s*:\s*\d+,", "open the run or trace itself"),
    ("a trace of Chrome's DevTools", rb"devtools\.timeline|\"DevTools\"", _OWN_VIEWER),
    ("a trace of VizTracer", rb"viztracer|\"cat\"\s*:\s*\"FEE\"", _OWN_VIEWER),
    ("a trace of py-spy", rb"\"cat\"\s*:\s*\"py-spy\"", _OWN_VIEWER),
    ("a trace of compiling by torch", rb"dynamo_timed", "of the training itself, " + RECORD),
    ("a trace of eBPF", rb"(?i)\be?bpf", _OWN_VIEWER),
    ("a trace of the kernel's scheduler", rb"sched_switch|sched_waking", _OWN_VIEWER),
    ("a trace of a compiler", rb"\"Total ExecuteCompiler|\"ExecuteCompiler\"", _OWN_VIEWER),
    ("a profile of ONNX Runtime", rb"\"cat\"\s*:\s*\"(Session|Node)\"", _OWN_VIEWER),
)  # fmt: skip


def refusal(path: Path, text: bytes, otherwise: str) -> TraceError:
    """The error for a file that begins with ``text`` and is no trace: what it is and what to do, or
    ``otherwise`` behind its name if nothing known begins like that."""
    head = text[:HEAD]
    for what, sign, remedy in _SIGNS:
        if re.search(sign, head, re.DOTALL):
            return TraceError(f"{path} is {what}, not a trace of PyTorch: {remedy}")
    return TraceError(f"{path} {otherwise}")
