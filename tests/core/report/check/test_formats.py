"""Forms of a check, and paths inside the repository."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.diagnosis.model import Severity
from perftui.report.check import forms
from perftui.report.check.forms import as_object
from perftui.report.check.judge import (
    Check,
    CheckLimits,
    Gate,
    Repository,
    State,
    Verdict,
    repository_around,
)
from perftui.trace.text import printable
from tests.described import described

HERE = Repository(Path("/w"))
SEVERITIES = st.none() | st.sampled_from([Severity.CRITICAL, Severity.WARNING, Severity.INFO])
ANY = st.text() | st.text("%:,\r\n\x00\x1b\ud800\ufffe<>&\"'a", max_size=20)
FILES = st.none() | ANY | ANY.map(lambda name: f"/w/{name}")
CHECKS = st.builds(
    Check,
    ANY,
    ANY,
    ANY,
    st.sampled_from(State),
    ANY,
    ANY,
    SEVERITIES,
    FILES,
    st.none() | st.integers(1, 99),
)
GATES = st.builds(
    Gate,
    ANY.map(Path),
    st.none() | ANY.map(Path),
    st.none() | st.just("/elsewhere"),
    st.lists(CHECKS, max_size=5).map(tuple),
    st.builds(CheckLimits, SEVERITIES, st.just(0.05), st.booleans()),
)


def plain(words: str) -> str:
    """What a reader of XML gets of ``words``: line ends are all the same in there."""
    return forms.allowed(words).replace("\r\n", "\n").replace("\r", "\n")


@pytest.mark.slow
@given(GATES)
def test_junit_is_xml_that_holds_every_check_and_its_result(gate) -> None:
    suites = ElementTree.fromstring(forms.junit_xml(gate, HERE))  # noqa: S314 - written just now
    [suite] = suites
    assert len(suite) == len(gate.checks) == int(suite.attrib["tests"])
    for one, case in zip(gate.checks, suite, strict=True):
        assert plain(case.attrib["name"]) == plain(one.name)
        found = [child.tag for child in case]
        assert found == (["failure"] if gate.fails(one) else _other(one))
        for child in case:
            assert plain(child.text or "") == plain(one.message)
            assert plain(one.limit) in plain(child.attrib["message"])
    tags = [child.tag for case in suite for child in case]
    for name, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        assert int(suites.attrib[name]) == tags.count(tag)


def _other(check: Check) -> list[str]:
    kinds = {State.NOT_JUDGED: ["error"], State.NOT_CERTAIN: ["skipped"]}
    return kinds.get(check.state, [])


@given(ANY)
def test_what_xml_forbids_is_removed_and_the_rest_stays(words) -> None:
    kept = forms.allowed(words)
    assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]", kept)
    left = iter(words)
    assert all(char in left for char in kept)
    assert forms.allowed("a\tb\n\x7f é 🙂") == "a\tb\n\x7f é 🙂"


def as_the_runner_reads(line: str) -> tuple[str, dict[str, str], str]:
    """The command, its properties and its message, as the runner of GitHub Actions does it."""
    head, _, message = line.removeprefix("::").partition("::")
    kind, _, given_ = head.partition(" ")
    pairs = [one.split("=", 1) for one in given_.split(",")]
    properties = {name: _read(value, ("%3A", ":"), ("%2C", ",")) for name, value in pairs}
    return kind, properties, _read(message)


def _read(text_: str, *more: tuple[str, str]) -> str:
    for code, char in (("%0D", "\r"), ("%0A", "\n"), *more, ("%25", "%")):
        text_ = text_.replace(code, char)
    return text_


@given(st.lists(ANY, min_size=1, max_size=3), ANY)
def test_a_command_is_read_as_it_was_meant(values, message) -> None:
    properties = {f"p{number}": value for number, value in enumerate(values)}
    line = forms.command("error", properties, message)
    assert "\n" not in line
    assert "\r" not in line
    assert as_the_runner_reads(line) == ("error", properties, message)


@pytest.mark.slow
@given(GATES)
def test_what_is_not_ok_and_every_finding_is_annotated_on_one_line(gate) -> None:
    lines = forms.github_commands(gate, HERE).split("\n")[:-1]
    told = [one for one in gate.checks if one.state is not State.OK or one.severity is not None]
    assert len(lines) == len(told)
    for one, line in zip(told, lines, strict=True):
        kind, properties, message = as_the_runner_reads(line)
        assert message == printable(one.message)
        assert (kind == "error") == (gate.fails(one) or one.state is State.NOT_JUDGED)
        assert not properties.get("file", "").startswith(("/", ".."))


@pytest.mark.slow
@given(GATES)
def test_text_and_json_hold_every_check(gate) -> None:
    lines = forms.check_text(gate).splitlines()
    assert len(lines) >= len(gate.checks) + 2
    assert printable(lines[-1]) == lines[-1]
    assert lines[-1].startswith(
        {Verdict.FAILED: "FAILED: ", Verdict.PASSED: "passed: "}.get(gate.verdict, "not judged: ")
    )
    found = described("check", as_object(gate, HERE))
    assert [one["fails"] for one in found["checks"]] == [gate.fails(one) for one in gate.checks]
    assert (found["verdict"] == "failed") == any(one["fails"] for one in found["checks"])


def test_what_fails_counts_for_more_than_what_is_not_judged() -> None:
    def gate(*states: State, strict: bool = False) -> Verdict:
        checks = tuple(Check(state.value, "", "", state, "", "") for state in states)
        limits = CheckLimits(inconclusive_fails=strict)
        return Gate(Path("run"), None, None, checks, limits).verdict

    assert gate(State.FAILED, State.NOT_JUDGED) is Verdict.FAILED
    assert gate(State.OK, State.NOT_JUDGED) is Verdict.NOT_JUDGED
    assert gate(State.OK, State.NOT_CERTAIN) is Verdict.PASSED
    assert gate(State.OK, State.NOT_CERTAIN, strict=True) is Verdict.FAILED


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository with a script in a folder."""
    (tmp_path / "repo" / ".git").mkdir(parents=True)
    (tmp_path / "repo" / "vision").mkdir()
    (tmp_path / "repo" / "vision" / "train.py").write_text("")
    (tmp_path / "repo" / "utils.py").write_text("")
    return tmp_path / "repo"


@pytest.mark.parametrize(
    ("file", "cwd", "named"),
    [
        ("{root}/vision/train.py", None, "vision/train.py"),
        ("{root}/vision/../utils.py", None, "utils.py"),
        ("train.py", "{root}/vision", "vision/train.py"),
        ("/home/ada/repo/vision/train.py", "/home/ada/repo/vision", "vision/train.py"),
        ("/home/ada/repo/vision/train.py", "/home/ada/repo", "vision/train.py"),
        ("/usr/lib/python3/utils.py", "/home/ada/repo", None),
        ("/home/ada/repo/venv/lib/utils.py", "/home/ada/repo", None),
        ("/home/ada/repo/../utils.py", "/home/ada/repo", None),
        ("/home/ada/repo/vision/gone.py", "/home/ada/repo", None),
        ("/usr/lib/python3/utils.py", None, None),
        (None, None, None),
        ("a\x00b", "{root}", None),
    ],
)
def test_a_file_is_named_by_its_place_in_the_repository(root: Path, file, cwd, named) -> None:
    file, cwd = (one.format(root=root) if one else one for one in (file, cwd))
    repository = Repository(root)
    assert repository.inside(file, cwd) == named
    assert repository.shown(file, cwd) == (named or file)


def test_the_repository_is_that_of_the_runner_or_the_one_around(root: Path) -> None:
    inner = root / "vision"
    assert repository_around(inner, None).root == root.resolve()
    assert repository_around(inner, str(root.parent)).root == root.parent.resolve()
    assert repository_around(inner, str(root / "elsewhere")).root == root.resolve()


def test_a_link_that_leads_out_is_not_inside(root: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.py").write_text("")
    (root / "link.py").symlink_to(tmp_path / "secret.py")
    assert Repository(root).inside(str(root / "link.py"), None) is None


@given(st.text(), st.none() | st.text())
def test_any_name_is_inside_or_not(file, cwd) -> None:
    found = Repository(Path("/w")).inside(file, cwd)
    assert found is None or not found.startswith(("/", "../"))
