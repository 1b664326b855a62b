"""What is redacted in any text, and what is left as it is."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.report.redaction.known_private import known_here, secrets_of
from perftui.report.redaction.private_forms import Known, Redactor
from tests.core.report.redaction.planted import PROGRAM, UUID

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
