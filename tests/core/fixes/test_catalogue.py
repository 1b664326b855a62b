"""The fixes of the catalogue, as they are offered for a run: loaders above all, and their risks."""

from dataclasses import replace
from pathlib import Path

import pytest

from perftui.diagnosis.diagnose import diagnosis
from perftui.facts.fact import Facts
from perftui.fixes.catalogue import CATALOGUE, options
from perftui.fixes.option import FixOption, Risk
from perftui.run.manifest import Override
from tests.core.diagnosis.runs import ON_GPU, joined, make_run, step_table, telemetry_table

SCRIPT = "from torch.utils.data import DataLoader\nloader = DataLoader(data)\n"
GUARDED = SCRIPT + 'if __name__ == "__main__":\n    main()\n'
PHASES = {"input_wait": 60, "forward": 40}


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    return path


def answers(run, *fixes: str) -> tuple[FixOption, ...]:
    """What answers the first finding of a run: ``fixes``, or its own."""
    evidence = Facts(run, None)
    finding = diagnosis(evidence).top
    return options(replace(finding, fixes=fixes) if fixes else finding, evidence)


def offered(script: Path, line: int = 2, loader=None, **run) -> dict[str, FixOption]:
    facts = {
        "num_workers": 0,
        "pin_memory": False,
        "file": str(script),
        "line": line,
        "start_method": "fork",
        **(loader or {}),
    }
    run.setdefault("command", ("python", "train.py"))
    snapshot = make_run(phases=PHASES, loaders=(facts,), cwd=str(script.parent), **run)
    return {option.fix: option for option in answers(snapshot)}


def workers(script: Path, **changes) -> FixOption:
    return offered(script, **changes)["loader-workers"]


def test_workers_are_offered_as_override_and_as_patch(script) -> None:
    option = workers(script)
    arguments = {"num_workers": 4, "persistent_workers": True}
    assert option.title == "num_workers 0 -> 4"
    assert option.override == Override("DataLoader", arguments, str(script), 2, "loader-workers")
    assert option.patch.arguments == arguments
    assert option.patch.after.endswith(
        b"DataLoader(data, num_workers=4, persistent_workers=True)\n"
    )
    assert set(option.risks) == {Risk.ORDER, Risk.RANDOMNESS, Risk.MEMORY}
    assert (option.argv, option.why_not) == (None, "")
    assert script.read_text() == SCRIPT


@pytest.mark.parametrize(
    ("cores", "current", "wanted"),
    [(2, 0, 1), (3, 0, 2), (4, 0, 3), (8, 0, 4), (64, 0, 4), (64, 4, 8), (8, 4, 7)],
)
def test_the_number_of_workers_follows_the_cores(script, cores, current, wanted) -> None:
    option = workers(script, cpu_count=cores, loader={"num_workers": current})
    assert option.override.arguments["num_workers"] == wanted


@pytest.mark.parametrize(
    ("cores", "cpu_ms", "wanted"), [(2, 60, 1), (2, 30, 2), (2, 0, 2), (4, 60, 3), (4, 20, 4)]
)
def test_workers_that_mostly_wait_share_cores(script, cores, cpu_ms, wanted) -> None:
    option = workers(script, cpu_count=cores, input_cpu=cpu_ms * 1_000_000)
    assert option.override.arguments["num_workers"] == wanted


def test_cores_that_other_programs_use_are_left_to_them(script) -> None:
    busy = telemetry_table(**{"cpu.utilization": 75.0, "processes.cpu": 100.0})
    option = workers(script, cpu_count=8, telemetry=busy)
    assert option.override.arguments["num_workers"] == 2  # 8 cores, 6 busy, 5 by others


@pytest.mark.parametrize(("others", "wanted"), [(50, 4), (59, 4), (60, 3), (62, 1)])
def test_in_a_container_only_its_own_cores_count(script, others, wanted) -> None:
    """Of 64 cores the container may use 5: others are no matter until they need those too."""
    used = {"cpu.utilization": 100 * (others + 1) / 64, "processes.cpu": 100.0, "cpu.cores": 64}
    option = workers(script, cpu_count=5, telemetry=telemetry_table(**used))
    assert option.override.arguments["num_workers"] == wanted


@pytest.mark.parametrize(("busy", "wanted"), [(45.0, 2), (60.0, None)])
def test_workers_that_leave_cores_idle_may_outnumber_them(script, busy, wanted) -> None:
    samples = telemetry_table(**{"cpu.utilization": busy, "processes.cpu": 2 * busy})
    option = workers(script, cpu_count=2, telemetry=samples, loader={"num_workers": 1})
    assert (option.override and option.override.arguments["num_workers"]) == wanted


@pytest.mark.parametrize(
    ("busy", "cpu_ms", "scarce"),
    [(80.0, 60, True), (51.0, 60, False), (80.0, 6, False)],
    ids=["a step on both cores", "a step on one core", "workers that mostly wait"],
)
def test_workers_without_idle_cores_are_a_risk(script, busy, cpu_ms, scarce) -> None:
    samples = telemetry_table(**{"cpu.utilization": busy, "processes.cpu": 2 * busy})
    option = workers(script, cpu_count=2, telemetry=samples, input_cpu=cpu_ms * 1_000_000)
    assert (Risk.CORES in option.risks) == scarce


REFUSED = {
    "one core": ({}, {"cpu_count": 1}, "no core is free"),
    "unknown cores": ({"num_workers": 2}, {"cpu_count": 0}, "not known how many cores"),
    "as many workers as cores": ({"num_workers": 7}, {}, "no core is free"),
    "iterable": ({"is_iterable": True}, {}, "every sample"),
    "open files": ({"holds_files": True}, {}, "open files"),
    "on the GPU": ({"holds_cuda": True}, {}, "on the GPU"),
    "in memory": ({"dataset": "TensorDataset"}, {}, "already tensors in memory"),
    "lambda, spawned": ({"start_method": "spawn", "collate_is_lambda": True}, {}, "lambda"),
    "no guard, spawned": ({"start_method": "forkserver"}, {}, "__main__"),
}


@pytest.mark.parametrize(("loader", "run", "reason"), REFUSED.values(), ids=REFUSED)
def test_workers_are_refused_where_they_would_do_harm(script, loader, run, reason) -> None:
    option = workers(script, loader=loader, **run)
    assert (option.override, option.patch, option.argv) == (None, None, None)
    assert reason in option.why_not


def test_what_is_refused_under_one_condition_is_offered_without_it(script) -> None:
    assert workers(script, loader={"is_iterable": True, "shards": True}).override
    assert workers(script, loader={"collate_is_lambda": True}).override
    script.write_text(GUARDED)
    assert workers(script, loader={"start_method": "spawn"}).override


def test_a_guard_is_found_past_the_options_of_the_interpreter(script) -> None:
    torchrun = ("torchrun", "--nproc-per-node", "2", "train.py", "x")
    script.write_text(GUARDED)
    assert workers(script, command=torchrun, loader={"start_method": "spawn"}).override
    script.write_text(SCRIPT)
    refused = workers(script, command=torchrun, loader={"start_method": "spawn"})
    assert "it needs `if __name__" in refused.why_not


def test_a_script_that_cannot_be_told_is_not_said_to_lack_a_guard(script) -> None:
    script.write_text(GUARDED)
    for command in (("accelerate", "launch", "train.py"), ("python", "gone.py")):
        option = workers(script, command=command, loader={"start_method": "spawn"})
        assert option.override is None
        assert option.why_not.endswith("the command does not show which script that is")


def test_a_patch_that_is_not_certain_says_why_and_shows_the_line(script) -> None:
    script.write_text(SCRIPT.replace("(data)", "(data, num_workers=n())"))
    option = workers(script)
    assert option.patch is None
    assert option.override is not None
    assert "is computed" in option.why_not
    assert option.advice == (
        f"At {script}:2: DataLoader(..., num_workers=4, persistent_workers=True)"
    )


def test_a_source_that_was_edited_or_installed_is_not_patched(script, tmp_path) -> None:
    option = workers(script, started_ns=script.stat().st_mtime_ns - 1)
    assert option.patch is None
    assert "edited after this run" in option.why_not
    package = tmp_path / "site-packages" / "loaders.py"
    package.parent.mkdir()
    package.write_text(SCRIPT)
    assert "installed package" in workers(package).why_not


def test_a_loader_that_is_only_likely_is_not_patched(script) -> None:
    facts = {"num_workers": 0, "file": str(script), "line": 2}
    loaders = ({**facts, "id": 1}, {**facts, "id": 2, "line": 3})
    option = answers(make_run(phases=PHASES, loaders=loaders))[0]
    assert option.why_not.startswith("the script creates several loaders")


def test_one_of_two_loaders_that_train_is_reported_as_half_a_fix(script) -> None:
    script.write_text(SCRIPT + "later = DataLoader(more)\n")
    facts = {"num_workers": 0, "file": str(script), "start_method": "fork"}
    made = ({**facts, "id": 1, "line": 2}, {**facts, "id": 2, "line": 3})
    roles = tuple({"id": number, "role": "train"} for number in (1, 2))
    option = answers(make_run(phases=PHASES, loaders=(*made, *roles)))[0]
    assert option.patch is not None
    assert option.explanation.endswith(
        "The loader made at train.py:3 feeds the training, too, and stays unchanged: this is half "
        "of the fix."
    )


def test_a_default_that_others_read_is_reported(script) -> None:
    script.write_text(OPTION + "valid = DataLoader(data, num_workers=args.workers)\n")
    option = workers(script)
    assert option.explanation.endswith(
        "valid at train.py:7 reads the same value: it changes for it, too."
    )


OPTION = """\
from torch.utils.data import DataLoader
loader = DataLoader(data, num_workers=args.workers)
p.add_argument("-j", "--workers", type=int, default=0)
p.add_argument("-v", "--work-directory")
p.add_argument("--wor", action="store_true")
args = p.parse_args()
"""


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((), ("--workers", "4")),
        (("--lr", "1", "-j", "0", "x"), ("--lr", "1", "-j", "4", "x")),
        (("-j0",), ("-j4",)),
        (("--workers=0", "--lr", "1"), ("--workers=4", "--lr", "1")),
        (("--worke", "0", "x"), ("--worke", "4", "x")),
        (("--wor",), ("--workers", "4", "--wor")),
        (("-vjob",), ("--workers", "4", "-vjob")),
        (("-j", "0", "--", "-j", "0"), ("-j", "4", "--", "-j", "0")),
    ],
)
def test_an_option_of_the_script_is_given_in_the_command(script, arguments, expected) -> None:
    script.write_text(OPTION)
    option = workers(script, command=("python", "train.py", *arguments))
    assert option.argv == ("python", "train.py", *expected)


def test_the_default_is_patched_only_where_the_command_does_not_decide(script) -> None:
    script.write_text(OPTION)
    free = workers(script)
    assert free.patch.arguments == {"num_workers": 4, "persistent_workers": True}
    assert b"default=4" in free.patch.after
    assert b"persistent_workers=args.workers > 0" in free.patch.after
    decided = workers(script, command=("python", "train.py", "-j0"))
    assert decided.patch is None
    assert decided.why_not == "the command sets --workers: change it there"
    abbreviated = workers(script, command=("python", "train.py", "--worke", "0"))
    assert (abbreviated.patch, abbreviated.why_not) == (None, decided.why_not)


def test_an_argument_that_may_give_the_option_is_left_to_the_user(script) -> None:
    script.write_text(OPTION)
    option = workers(script, command=("python", "train.py", "-vj4"))
    assert (option.patch, option.argv) == (None, None)
    assert option.why_not == "-vj4 in the command may set --workers: change it there"
    assert option.override is not None


def test_an_option_of_another_program_is_not_given(script) -> None:
    script.write_text(OPTION)
    assert workers(script, command=("python", "other.py")).argv is None


def test_a_module_has_options_too(script) -> None:
    script.write_text(OPTION.replace("args.workers)", "int(args.workers))"))
    option = workers(script, command=("python", "-m", "train", "x"))
    assert option.argv == ("python", "-m", "train", "--workers", "4", "x")
    assert b'"--workers", type=int, default=4' in option.patch.after


def test_pinning_is_offered_with_a_gpu(script) -> None:
    option = offered(script, **ON_GPU)["loader-pin"]
    assert option.override.arguments == {"pin_memory": True}
    assert b"pin_memory=True" in option.patch.after


def test_copies_that_no_override_reaches_are_tried_by_the_text(script) -> None:
    made = script.read_text().rstrip()
    script.write_text(f"{made}\nfor x in loader:\n    x = x.cuda()\n")
    option = offered(script, **ON_GPU)["loader-pin"]
    assert (option.override, option.is_triable) == (None, True)
    assert b"x = x.cuda(non_blocking=True)" in option.patch.after


def test_a_flag_of_the_script_pins(script) -> None:
    script.write_text(
        "from torch.utils.data import DataLoader\n"
        "loader = DataLoader(data, pin_memory=args.pin)\n"
        "p.add_argument('--pin', action=argparse.BooleanOptionalAction, default=False)\n"
        "args = p.parse_args()\n"
    )
    option = offered(script, **ON_GPU)["loader-pin"]
    assert option.argv == ("python", "train.py", "--pin")
    assert b"default=True" in option.patch.after
    given = offered(script, command=("python", "train.py", "--no-pin"), **ON_GPU)["loader-pin"]
    assert given.argv == option.argv
    assert (given.patch, given.why_not) == (None, "the command sets --pin: change it there")


def test_pinning_is_refused_with_the_reason(script) -> None:
    facts = {"num_workers": 0, "file": str(script), "line": 2}
    unused = {"gpus": ("H200",)}
    for change, where, reason in (
        ({}, {}, "no GPU"),
        ({}, unused, "no GPU"),
        ({"pin_memory": True}, ON_GPU, "already pinned"),
        ({"holds_cuda": True}, ON_GPU, "cannot be pinned"),
    ):
        run = make_run(phases=PHASES, loaders=({**facts, **change},), **where)
        (option,) = answers(run, "loader-pin")
        assert option.override is None
        assert reason in option.why_not


KEPT = "loader = DataLoader(data, num_workers=2, persistent_workers=True)\n"


@pytest.mark.parametrize(
    ("call", "after", "reason"),
    [
        ("DataLoader(data, num_workers=2)", KEPT, ""),
        ("DataLoader(data, num_workers=count())", None, "no number of workers"),
    ],
)
def test_workers_that_start_anew_are_kept(script, call, after, reason) -> None:
    begin = "from torch.utils.data import DataLoader\n"
    script.write_text(f"{begin}loader = {call}\n")
    facts = {"id": 1, "role": "train", "num_workers": 2, "persistent_workers": False}
    loader = {**facts, "file": str(script), "line": 2}
    epoch = [step_table(1, {"loader_start": 400, "forward": 10}), step_table(39, {"forward": 10})]
    (option,) = answers(make_run(steps=joined(*epoch * 4), loaders=(loader,)))
    arguments = {"persistent_workers": True}
    assert option.override == Override("DataLoader", arguments, str(script), 2, "loader-persistent")
    assert Risk.ORDER in option.risks
    assert reason in option.why_not
    assert (option.patch and option.patch.after.decode()) == (after and begin + after)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"num_workers": 0}, "no workers"),
        ({"num_workers": None}, "not known"),
        ({"persistent_workers": True}, "already stay"),
    ],
)
def test_keeping_workers_is_refused_with_the_reason(script, change, reason) -> None:
    facts = {"num_workers": 2, "file": str(script), "line": 2, **change}
    (option,) = answers(make_run(phases=PHASES, loaders=(facts,)), "loader-persistent")
    assert option.override is None
    assert reason in option.why_not


def test_fixes_that_are_not_in_the_catalogue_are_left_out(script) -> None:
    assert answers(make_run(phases=PHASES, loaders=({"num_workers": 0},)), "later") == ()


def test_every_risk_is_that_of_a_fix() -> None:
    assert {risk for fix in CATALOGUE.values() for risk in fix.risks} == set(Risk) - {Risk.EDIT}
