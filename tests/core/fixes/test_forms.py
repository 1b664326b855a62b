"""Forms of training scripts: what is written or why not, and what holds for every one of them."""

import ast
import codecs
from collections.abc import Callable
from pathlib import Path

import pytest

from perftui.facts.fact import Facts
from perftui.fixes.apply_and_undo import apply_patch, undo
from perftui.fixes.catalogue import CATALOGUE
from perftui.fixes.data_loader import LOADER
from perftui.fixes.fix import LineChange, changed_lines
from perftui.fixes.optimizer import optimizer_spec
from perftui.fixes.option import Patch
from perftui.fixes.script_overhead import seldom
from perftui.fixes.source.patching import apply_edits, call_patch
from perftui.fixes.switches import ANOMALY_CALL, THREADS_CALL
from perftui.script.program import PatchRefusedError, parse_program
from tests.core.diagnosis.runs import make_run
from tests.core.fixes.forms.evaluations import EVALUATIONS
from tests.core.fixes.forms.form import Form
from tests.core.fixes.forms.loaders import COPIES, LOADERS
from tests.core.fixes.forms.loops import LOOPS
from tests.core.fixes.forms.optimizers import AVERAGES, OPTIMIZERS
from tests.core.fixes.forms.ranks import RANKS

FORMS = (*LOADERS, *OPTIMIZERS, *LOOPS, *EVALUATIONS, *RANKS, *COPIES, *AVERAGES)
WRITTEN = [form for form in FORMS if form.written]
REFUSED = [form for form in FORMS if form.refused]

CALLS = {
    "workers": (LOADER, {"num_workers": 3, "persistent_workers": True}),
    "pin": (LOADER, {"pin_memory": True}),
    "persistent": (LOADER, {"persistent_workers": True}),
    "fused": (optimizer_spec("fused"), {"fused": True}),
    "threads": (THREADS_CALL, {"threads": 2}),
    "anomaly": (ANOMALY_CALL, {"mode": False}),
}
PLANS = {
    "compile": CATALOGUE["compile-dynamic"].plan,
    "recompute": CATALOGUE["recompute-off"].plan,
    "less-often": seldom,
    "evaluate-less-often": CATALOGUE["evaluate-less-often"].plan,
    "no-grad": CATALOGUE["no-grad"].plan,
    "no-sync": CATALOGUE["ddp-no-sync"].plan,
    "average": CATALOGUE["foreach-average"].plan,
    "collect": CATALOGUE["collect-off"].plan,
    "sleep": CATALOGUE["sleep-off"].plan,
    "empty-cache": CATALOGUE["empty-cache-off"].plan,
}
RARER = ("less-often", "evaluate-less-often")
"""Each time they make what is done ten times rarer: that a run is needed in between is shown by
``test_what_is_done_rarer_needs_another_run``."""


def patched(form: Form, path: Path, source: bytes, line: int) -> Patch:
    """The patch of ``form`` for the file at ``path``, which gets ``source``."""
    path.write_bytes(source)
    if form.fix in CALLS:
        spec, arguments = CALLS[form.fix]
        seen = {} if form.had is None else {"num_workers": form.had}
        return call_patch(path, line, spec, arguments, seen)
    edits = PLANS[form.fix](parse_program(source), line)
    return Patch(path, source, apply_edits(source, list(edits))[0])


def by_name(forms: list[Form]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("form", forms, ids=[f"{f.fix}: {f.what}" for f in forms])


def test_there_are_enough_forms() -> None:
    assert len(FORMS) >= 60
    assert len(WRITTEN) + len(REFUSED) == len(FORMS)


@by_name(WRITTEN)
def test_what_a_form_becomes(form, path) -> None:
    after = patched(form, path, form.text.encode(), form.line).after.decode()
    before = form.text.split("\n")
    put_in = [line.strip() for line in after.split("\n") if line not in before]
    is_taken_out = form.fix in ("collect", "sleep")
    assert (put_in == list(form.written)) or (is_taken_out and not put_in)


@by_name(REFUSED)
def test_why_a_form_is_left_alone(form, path) -> None:
    with pytest.raises(PatchRefusedError) as refusal:
        patched(form, path, form.text.encode(), form.line)
    assert form.refused in str(refusal.value)


@by_name([form for form in WRITTEN if form.fix not in RARER])
def test_a_second_time_nothing_is_written(form, path) -> None:
    patch = patched(form, path, form.text.encode(), form.line)
    with pytest.raises(PatchRefusedError):
        patched(form, path, patch.after, patch.line or form.line)


@by_name([form for form in WRITTEN if form.fix in RARER])
def test_what_is_done_rarer_needs_another_run(form, path) -> None:
    path.write_bytes(patched(form, path, form.text.encode(), form.line).after)
    change = LineChange("rarer", str(path), form.line, PLANS[form.fix], "by hand")
    facts = Facts(make_run(started_ns=path.stat().st_mtime_ns - 1))
    assert "edited after this run" in changed_lines(change, facts).why_not


def tabs(text: str) -> str:
    lines = (line.lstrip(" ") for line in text.split("\n"))
    depths = ((len(line) - len(line.lstrip(" "))) // 4 for line in text.split("\n"))
    return "\n".join("\t" * depth + line for depth, line in zip(depths, lines, strict=True))


STYLES: dict[str, Callable[[str], bytes]] = {
    "LF": str.encode,
    "CRLF": lambda text: text.replace("\n", "\r\n").encode(),
    "tabs": lambda text: tabs(text).encode(),
    "BOM": lambda text: codecs.BOM_UTF8 + text.encode(),
    "form feed": lambda text: ("\f\n" + text).encode(),
    "no last line end": lambda text: text.rstrip("\n").encode(),
    "accents": lambda text: f"# é€𝄞\n{text}".encode(),
}
ABOVE = {"form feed": 1, "accents": 1}
"""Lines that a style puts on top."""


@pytest.mark.slow
@pytest.mark.parametrize("style", STYLES)
@by_name(WRITTEN)
def test_a_file_keeps_its_style_and_undo_gives_its_bytes_back(form, path, style) -> None:
    made = STYLES[style]
    plain = patched(form, path, form.text.encode(), form.line).after.decode()
    line = form.line + ABOVE.get(style, 0)
    patch = patched(form, path, made(form.text), line)
    assert patch.after == made(plain)
    ast.parse(patch.after)
    applied = apply_patch(patch, path.parent / "store")
    assert path.read_bytes() == patch.after
    undo(applied, path.parent / "store")
    assert path.read_bytes() == made(form.text)
