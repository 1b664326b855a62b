"""What is redacted, in text and in every form of a report."""

import csv
import gzip
import html
import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.report import as_json, folded_stacks, markdown, text
from perftui.report.csv_tables import TABLES, csv_text, table_named
from perftui.report.html import page
from perftui.report.perfetto import write_perfetto
from perftui.report.redaction.known_private import known_here, redacted, rendered, secrets_of
from perftui.report.redaction.private_forms import Known, RedactionError, Redactor
from perftui.report.report import Report
from tests.core.report.redaction.planted import (
    IN_TRACES,
    PROGRAM,
    SECRETS,
    UUID,
    planted_report,
    planted_run,
    planted_trace,
)
from tests.described import described

KNOWN = Known(
    users=("ada",),
    hosts=("node7.example", "node7"),
    homes=("/home/ada",),
    projects=("/home/ada/vision", "/code"),
    paths=("/data/Jane Doe/images", "/srv/x/train.py"),
    programs=(PROGRAM,),
    values=("s3cr3t-value",),
    uuids=(UUID,),
)
WORDS = st.text(
    st.characters(exclude_categories=("Cs", "Cc")), max_size=20
)  # what may stand around a secret
PRIVATE = ("ada", "node7", "/home/ada", "/home/ada/vision", "Jane Doe", "s3cr3t-value", UUID)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/home/ada/vision/src/train.py:3", "src/train.py:3"),
        ("/home/ada/vision", "project"),
        ("-I/home/ada/vision/include", "-Iinclude"),
        ("/code/train.py", "train.py"),
        ("/opt/venv/lib/python3.12/site-packages/torch/nn.py", "site-packages/torch/nn.py"),
        ("/opt/py/lib/python3.12/threading.py(3): run", "python3.12/threading.py(3): run"),
        ("/srv/x/train.py and /srv/x/model.py", "path-1/train.py and path-1/model.py"),
        ("/srv/x/data of /srv/y", "path-1 of path-2"),
        ("read /data/Jane Doe/images/1.png.", "read path-1/1.png."),
        ("~/notes/a.txt", "path-1/a.txt"),
        (r"C:\Users\Ada Lovelace\x.py", "path-1/x.py"),
        (r"C:\\Users\\ada\\x.py", "path-1/x.py"),
        ("/usr/bin/python3", "/usr/bin/python3"),
        ("/dev/nvidia0", "/dev/nvidia0"),
        ("run on node7.example, by NODE7", "run on host-1, by host-1"),
        ("ada's Canada", "user-1's Canada"),
        ("pids 12, 13 take it", "program-1 take it"),
        (f"(pid 4123 {PROGRAM}), and {PROGRAM}", "(program-1), and program-1"),
        ("10.0.0.7:29500 of 127.0.0.1", "address-1:29500 of 127.0.0.1"),
        ("fe80::1 2001:db8::1 12:30:45", "address-1 address-2 12:30:45"),
        ("02:42:ac:11:00:02", "address-1"),
        ("https://user:pw@git.example/x.git", "url-1"),
        ("git@git.example:team/x.git", "url-1"),
        ("https://pytorch.org/docs/stable/x.html", "https://pytorch.org/docs/stable/x.html"),
        ("https://pytorch.org/?key=1", "url-1"),
        ("https://evil-pytorch.org/x", "url-1"),
        ("mail bob@example.org", "mail email-1"),
        ("hf_abcdefghijklmnopqrstuv", "value-1"),
        (f"{UUID} and MIG-{UUID[4:]}", "uuid-1 and uuid-2"),
        ("host-1 in path-2/train.py", "host-1 in path-2/train.py"),
    ],
)
def test_a_text(text: str, shown: str) -> None:
    assert Redactor(KNOWN)(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>()",
        "ampere_sgemm_128x64_nn",
        "c10::add a::b::c de:ad",
        "aten::conv2d / 3 of 4 steps/s, 1.5 GB/s, num_workers 0 -> 2",
        "nn.Module: Model_0/layers.0/attn",
        "Memcpy HtoD (Pinned -> Device)",
        "CUDA 12.8.93, cuDNN 9.1.0, torch 2.13.0+cu128",
        "ProfilerStep#12 at train.py:31 in <module>",
        "and/or, input/output, 60 % of each 35 ms step",
    ],
)
def test_names_of_operators_and_figures_stay(text: str) -> None:
    assert Redactor(KNOWN)(text) == text


@given(WORDS, st.sampled_from(PRIVATE), WORDS)
def test_a_secret_is_found_between_any_words(before: str, secret: str, behind: str) -> None:
    redactor = Redactor(KNOWN)
    shown = redactor(f"{before} {secret} {behind}")
    assert not redactor.left_in(shown)
    assert redactor(shown) == shown


@given(WORDS, WORDS)
def test_the_same_text_gives_the_same(before: str, behind: str) -> None:
    redactor = Redactor(KNOWN)
    assert redactor(f"{before}/home/ada/x{behind}") == redactor(f"{before}/home/ada/x{behind}")


@pytest.mark.parametrize(
    ("command", "secrets"),
    [
        ("python t.py --hf-token abc --lr 0.1", ["abc"]),
        ("python t.py --api_key=abc --epochs=3", ["abc"]),
        ("python t.py wandb.key=abc data.name=cifar", ["abc"]),
        ("env WANDB=abc OMP_NUM_THREADS=4 python t.py NAME=x", ["abc"]),
        ("python t.py --password abc --save", ["abc"]),
        ("python t.py --tokenizer gpt2 --max-tokens 512 --pad-token x", []),
        ("python t.py --key-size 3 --author ada --token 5 --use-auth true", []),
        ("python t.py 0123456789abcdef0123456789abcdef --run 2026-11-28", ["0123456789abcdef" * 2]),
    ],
)
def test_secrets_of_a_command(command: str, secrets: list[str]) -> None:
    assert list(secrets_of(command.split())) == secrets


def test_what_is_private_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "grace")
    monkeypatch.setattr("socket.gethostname", lambda: "eniac.example")
    monkeypatch.setattr(Path, "home", lambda: Path("/home/grace"))
    known = known_here()
    assert known.users == ("grace",)
    assert known.hosts == ("eniac.example", "eniac")
    assert known.homes == ("/home/grace",)


def test_names_that_are_words_of_a_report_are_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "step")
    monkeypatch.setattr("socket.gethostname", lambda: "gpu")
    known = known_here()
    assert "step" not in known.users
    assert known.hosts == ()


FORMS: dict[str, Callable[[Report], str]] = {
    "text": text.render,
    "markdown": markdown.render,
    "json": as_json.encode,
    "html": page.render,
    "folded": folded_stacks.render,
    "brief": text.brief_text,
    "brief json": text.brief_json,
    **{
        name: lambda report, name=name: csv_text(table_named(name, report))  # type: ignore[misc]
        for name in TABLES
    },
}


def no_secret_in(found: str, secrets: Sequence[str] = SECRETS) -> None:
    for spelled in (found, html.unescape(found), found.replace("\\", "")):
        assert [secret for secret in secrets if secret in spelled] == []


@pytest.fixture(scope="module")
def of_run(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return planted_report(planted_run(tmp_path_factory.mktemp("run")))


@pytest.fixture(scope="module")
def of_trace(tmp_path_factory: pytest.TempPathFactory) -> Report:
    folder = tmp_path_factory.mktemp("trace")
    return planted_report(planted_trace(folder / "host-secret_99.170.pt.trace.json"))


@pytest.mark.parametrize("form", FORMS)
def test_no_form_of_a_run_holds_a_secret(form: str, of_run: Report) -> None:
    no_secret_in(rendered(FORMS[form], redacted(of_run)))


@pytest.mark.parametrize("form", FORMS)
def test_no_form_of_a_trace_holds_a_secret(form: str, of_trace: Report) -> None:
    no_secret_in(rendered(FORMS[form], redacted(of_trace)), IN_TRACES)


def test_the_plants_are_in_the_report_that_is_not_redacted(of_run: Report) -> None:
    """Else nothing would be tested: the forms together show each of them."""
    shown = "".join(FORMS[form](of_run) for form in FORMS)
    assert [secret for secret in SECRETS if secret not in shown] == []
    assert "987654" in shown
    assert "4123" in shown


def test_process_numbers_of_the_run_and_of_others_are_left_out(of_run: Report) -> None:
    shown = rendered(as_json.encode, redacted(of_run))
    run = described("report", shown)["run"]
    assert (run["pid"], run["recorder_pid"]) == (None, None)
    assert "987654" not in shown
    assert "4123" not in shown
    assert "4124" not in shown


def test_the_figures_are_those_of_the_report(of_run: Report) -> None:
    plain = described("report", as_json.encode(of_run))
    found = described("report", rendered(as_json.encode, redacted(of_run)))
    assert plain["redacted"] is None
    assert "host names" in found["redacted"]
    assert numbers_in(found) == numbers_in({**plain, "run": found["run"]})


def numbers_in(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [number for one in value.values() for number in numbers_in(one)]
    if isinstance(value, list):
        return [number for one in value for number in numbers_in(one)]
    return [value] if isinstance(value, (int, float)) else []


def test_one_thing_has_one_name_and_files_are_named_from_the_project(of_run: Report) -> None:
    found = json.loads(rendered(as_json.encode, redacted(of_run)))
    run, profile = found["run"], found["run"]["profile"]
    assert run["host"] == "host-1"
    assert set(profile["gpu_devices"]) == {"host-1"}
    program = profile["gpu_processes"]["host-1"]["gpu0"][0]["program"]
    assert set(profile["other_programs"]["host-1"]["cores"]) == {program}
    assert f"({program})" in found["findings"][-1]["sentence"]
    assert " on host-1, at path-" in found["findings"][-1]["sentence"]
    assert "host-1: the recorder of user-" in " ".join(found["notes"])
    assert found["path"] == ".perftui/runs/20231114-221320-train"
    assert found["run"]["cwd"] == "project"
    assert found["run"]["command"][3:6] == ["train.py", "--lr", "0.1"]
    assert found["findings"][0]["place"]["file"] == "train.py"
    assert found["fixes"][0]["file"] == "train.py"
    assert "+    return DataLoader(" in found["fixes"][0]["diff"]


@pytest.mark.parametrize(("form", "line"), [("text", 0), ("brief", 0), ("markdown", 2)])
def test_what_is_redacted_is_said_at_the_head(form: str, line: int, of_run: Report) -> None:
    lines = rendered(FORMS[form], redacted(of_run)).splitlines()
    assert lines[line].startswith("redacted: user names, host names, paths")


def test_a_page_says_what_is_redacted(of_run: Report) -> None:
    shown = rendered(page.render, redacted(of_run))
    assert shown.index("redacted: user names") < shown.index("<dl")


def test_brief_reports_stay_brief_and_tables_stay_tables(of_run: Report, of_trace: Report) -> None:
    for form in ("brief", "brief json"):
        assert len(rendered(FORMS[form], redacted(of_run)).encode()) <= 2000
    described("report", as_json.encode(of_run))
    shown = rendered(FORMS["kernels"], redacted(of_trace))
    names = [row["kernel or copy"] for row in csv.DictReader(io.StringIO(shown))]
    assert names == ["gemm"]


@pytest.mark.parametrize("name", ["out.json", "out.json.gz"])
def test_a_trace_for_perfetto_holds_no_secret(name: str, of_run: Report, tmp_path: Path) -> None:
    path = tmp_path / name
    write_perfetto(redacted(of_run), path)
    content = path.read_bytes()
    shown = (gzip.decompress(content) if name.endswith("gz") else content).decode()
    no_secret_in(shown)
    assert "serial-secret" not in shown


def test_a_redacted_trace_has_the_same_events_and_times(of_trace: Report, tmp_path: Path) -> None:
    write_perfetto(of_trace, tmp_path / "plain.json")
    write_perfetto(redacted(of_trace), tmp_path / "redacted.json")
    plain, found = (
        json.loads((tmp_path / name).read_text(), parse_float=str)
        for name in ("plain.json", "redacted.json")
    )
    assert found.keys() == plain.keys()
    events = [one for one in found["traceEvents"] if one["name"] != "process_labels"]
    assert numbers_in(events) == numbers_in(plain["traceEvents"])
    times = [[one.get(name) for name in ("ph", "pid", "tid", "ts", "dur")] for one in events]
    assert times == [
        [one.get(name) for name in ("ph", "pid", "tid", "ts", "dur")]
        for one in plain["traceEvents"]
    ]


def test_what_is_left_is_refused(of_run: Report) -> None:
    with pytest.raises(RedactionError, match="is not written"):
        rendered(lambda _: f"a renderer that forgot {UUID}", redacted(of_run))
