"""The rank that the others wait for, by a run and by the traces of all ranks."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perftui.diagnosis.diagnose import diagnosis
from perftui.diagnosis.model import Finding, Severity
from perftui.facts.fact import Facts
from perftui.facts.ranks.collectives import collectives_of_ranks
from perftui.facts.ranks.straggler import straggler_place
from perftui.facts.ranks.traced_ranks import traced_ranks, waits_of_ranks
from perftui.report.as_json import as_object
from perftui.report.report import Report, make_report
from perftui.report.subject import load_subject, paths_of
from perftui.report.text import render
from perftui.run.reader import RankSnapshot, RunSnapshot
from perftui.trace.recordings import choose_rank
from tests.core.diagnosis.runs import MS, event_table, make_run, stack_table, step_table
from tests.core.diagnosis.stories import CALL, finding_of, found, reasons, severity_of, training
from tests.described import described
from tests.traces.builder import TraceBuilder, meet, ms, us, write_ranks

EVEN = {"forward": 40, "backward": 60}


def run_of(*phases: dict[str, float], **wrapper: Any) -> RunSnapshot:
    """A run with a rank for each of ``phases`` (ms), all wrapped alike."""
    wrappers = [{"name": "DistributedDataParallel", "count": 1, "arguments": wrapper}]
    events = event_table(events=(("settings", {"wrappers": wrappers}),))
    ranks = tuple(
        RankSnapshot(number, step_table(40, parts), events, ())
        for number, parts in enumerate(phases)
    )
    return replace(make_run(), ranks=ranks)


def with_windows(run: RunSnapshot, directory: Path, *collective_ms: float) -> RunSnapshot:
    """Each rank with a window whose backward waits so long in a collective."""
    ranks = []
    for rank, waits in zip(run.ranks, collective_ms, strict=True):
        path = directory / f"{rank.rank}.pt.trace.json"
        window(waits).write(path)
        ranks.append(replace(rank, windows=(path,)))
    return replace(run, ranks=tuple(ranks))


def window(collective: float, micro_batches: int = 1) -> TraceBuilder:
    """Steps of 100 ms on the CPU; so many ms of them in a collective, in parts, one for each
    backward pass."""
    each = ms(collective / micro_batches)
    computing = ms((100 - collective) / micro_batches)

    def step(t: TraceBuilder) -> None:
        t.step()
        for _ in range(micro_batches):
            t.backward().op("aten::mm", computing)
            t.range("gloo:all_reduce", each).close()
        t.end()

    return TraceBuilder().repeat(3, step)


def said(run: RunSnapshot, rule: str, trace: TraceBuilder | None = None) -> Finding | None:
    facts = Facts(run, trace.analysis() if trace else None)
    return next((one for one in diagnosis(facts).findings if one.rule == rule), None)


@pytest.mark.parametrize(
    ("late_by", "collective", "first"), [(30, 90, "straggler"), (15, 90, "communication-exposed")]
)
def test_who_is_late_is_said_before_the_waiting_that_it_causes(
    late_by: int, collective: int, first: str
) -> None:
    run = run_of({**EVEN, "backward": 60 + late_by}, {**EVEN, "other": late_by})
    found = diagnosis(Facts(run, window(collective).analysis(), 0)).findings
    assert found[0].rule == first
    assert {one.rule for one in found} >= {"straggler", "communication-exposed"}


def test_the_rank_that_comes_late_is_named_with_its_line() -> None:
    waiting, late = {**EVEN, "backward": 90}, {**EVEN, "other": 30}
    run = run_of(waiting, late)
    stacks = stack_table(*((at * 130, 30, "/home/a/train.py", 12) for at in range(40)))
    run = replace(run, ranks=(run.ranks[0], replace(run.ranks[1], stacks=stacks)))
    for number in (0, 1):
        found = next(iter(diagnosis(Facts(run, None, number)).findings))
        assert (found.rule, found.severity) == ("straggler", Severity.CRITICAL)
        assert found.cost_ns == 30 * MS
        assert found.sentence == (
            "Rank 1 holds up the others for 30 ms of each 130 ms step (23 %), 30 ms of it in "
            "its own code outside the model (train.py:12 in main)."
        )
        assert (found.place.rank, found.place.file, found.place.line) == (1, "/home/a/train.py", 12)


def test_the_line_is_one_that_the_other_ranks_have_not() -> None:
    """All make their batches at line 5, for 40 ms; one of them counts words for another 30."""
    run = run_of({"forward": 40, "other": 40, "backward": 90}, {**EVEN, "other": 70})
    batches = [(at * 170, 40, "/home/a/train.py", 5) for at in range(40)]
    words = [(at * 170 + 40, 30, "/home/a/train.py", 12) for at in range(40)]
    waiting = replace(run.ranks[0], stacks=stack_table(*batches))
    late = replace(run.ranks[1], stacks=stack_table(*sorted([*batches, *words])))
    found = said(replace(run, ranks=(waiting, late)), "straggler")
    assert (found.place.rank, found.place.line) == (1, 12)


def test_a_slow_backward_pass_is_seen_by_who_waits_least_in_collectives(tmp_path: Path) -> None:
    """Backward takes all of them the same time: two wait in it for the third."""
    run = with_windows(run_of(EVEN, EVEN, EVEN), tmp_path, 35, 5, 36)
    assert collectives_of_ranks(Facts(run)) == {0: 35 * MS, 1: 5 * MS, 2: 36 * MS}
    found = said(run, "straggler")
    assert found.cost_ns == 30 * MS
    assert "Rank 1 holds up the others for 30 ms" in found.sentence
    assert "30 ms of it in backward" in found.sentence


def test_a_rank_waits_no_longer_for_another_than_it_waits_at_all(tmp_path: Path) -> None:
    run = with_windows(run_of(EVEN, EVEN), tmp_path, 60, 5)
    alone = said(run, "straggler")
    of_its_window = said(run, "straggler", window(40))
    # The step of its window takes 100 ms, 40 of them in the collective; backward takes 60 of all.
    assert of_its_window.cost_ns < alone.cost_ns
    assert of_its_window.cost_ns == pytest.approx(60 * 40 / 100 * MS, rel=0.01)


def test_ranks_that_wait_alike_are_told_what_they_exchange(tmp_path: Path) -> None:
    run = with_windows(run_of(EVEN, EVEN), tmp_path, 35, 35)
    found = said(run, "communication-exposed", window(35))
    assert (found.severity, found.cost_ns) == (Severity.WARNING, 21 * MS)
    assert found.sentence == (
        "The training spends 21 ms of each 100 ms step (21 %) in collectives, with no "
        "computation to hide them."
    )


def test_gradients_that_are_reduced_for_each_micro_batch_are_distinguished() -> None:
    found = said(run_of(EVEN, EVEN), "reduce-each-micro-batch", window(40, micro_batches=4))
    assert found.cost_ns == 18 * MS
    assert found.sentence == (
        "Gradients are reduced in 4 backward passes of each step, where one would do: 18 ms of "
        "each 100 ms step (18 %) in collectives."
    )


def exchanging(collective: int) -> TraceBuilder:
    """Steps of 1 ms on a GPU that computes and then reduces for so many us, without phases."""

    def step(t: TraceBuilder) -> None:
        begin = t.now
        t.step().launch("gemm", us(1000 - collective), call=CALL, starts=begin)
        t.all_reduce(us(collective), starts=begin + us(1000 - collective))
        t.at(begin + ms(1)).end()

    return training().repeat(20, step)


def data_parallel(devices: str) -> RunSnapshot:
    """A run whose model is wrapped for these GPUs."""
    wrappers = [{"name": "DataParallel", "count": 1, "arguments": {"device_ids": devices}}]
    return make_run(events=(("settings", {"wrappers": wrappers}),))


def test_how_the_model_is_wrapped_is_judged() -> None:
    found = said(run_of(EVEN, EVEN, find_unused_parameters=True), "unused-parameters-search")
    assert found.severity is Severity.INFO
    found = finding_of(data_parallel("[0, 1, 2, 3]"), "wrong-parallelism")
    assert (found.severity, found.cost_ns) == (Severity.CRITICAL, 0)
    assert "DataParallel drives 4 GPUs" in found.sentence


STEPS = 20


def computing(
    *each_us: int, part: str = "gemm", steps: int = STEPS, later_us: int = 0
) -> list[TraceBuilder]:
    """Ranks that compute so long in each step of 1 ms and then reduce together for 50 us; the last
    begins so much later."""
    ranks = [training() for _ in each_us]
    begins = [*[0] * (len(ranks) - 1), us(later_us)]
    for at in range(steps):
        for rank, takes, later in zip(ranks, each_us, begins, strict=True):
            begin = ms(at) + later
            rank.at(begin).step()
            if part == "gemm":
                rank.launch("gemm", us(takes), call=CALL, starts=begin + us(10))
            else:
                rank.frame(f"train.py({takes}): {part}", us(takes)).launch("gemm", us(50))
                rank.at(rank._free[0, 7])
            rank._free[0, 20] = rank._free[0, 7]
        meet(ranks, us(50))
        for rank in ranks:
            rank.at(ms(at + 1)).end()
    return ranks


def report(folder: Path, rank: int = 0) -> Report:
    """The report of one rank of a directory, as the command makes it."""
    chosen = choose_rank(folder, rank)
    return make_report(replace(load_subject(chosen.path), beside=paths_of(chosen.ranks)))


def test_it_is_a_finding_on_every_rank(tmp_path: Path) -> None:
    """Rank 2 computes 300 us longer than two of the others, and 200 us longer than the third."""
    write_ranks(tmp_path, computing(300, 400, 600, 300))
    for rank, cost in ((0, 300), (1, 200), (3, 300)):
        finding = finding_of(report(tmp_path, rank).diagnosis, "straggler")
        assert (finding.cost_ns, finding.severity) == (us(cost), Severity.CRITICAL)
        assert (finding.place.rank, finding.place.operator) == (2, "gemm")
    own = finding_of(report(tmp_path, 2).diagnosis, "straggler")
    assert own.cost_ns == us(800) // 3
    assert own.sentence == (
        "Rank 2 arrives late at collectives and makes each of the others wait 267 µs of each 1.0 "
        "ms step (27 %): there gpu compute takes 300 µs longer (gemm)."
    )
    labels = {figure.label: figure.value for figure in own.facts}
    assert labels["waits for rank 2, all ranks"] == us(800)
    assert labels["waits for any rank, all ranks"] == us(800)
    assert labels["rank 2, in collectives"] == us(50)


def test_what_is_waited_for_is_no_exposed_communication(tmp_path: Path) -> None:
    """A rank that waits is told who it waits for; the late one what it exchanges itself."""
    write_ranks(tmp_path, computing(300, 600))
    waiting, late = (report(tmp_path, rank).diagnosis for rank in (0, 1))
    assert found(waiting, "communication-exposed") is None
    exchanging = found(late, "communication-exposed")
    assert exchanging.cost_ns == us(50)


def test_a_shorter_wait_leaves_the_rest_of_the_communication(tmp_path: Path) -> None:
    ranks = computing(400, 460)
    for rank in ranks:
        for span in rank.spans:
            if span.work == "communication":
                span.end += us(250)
    write_ranks(tmp_path, ranks)
    judged = report(tmp_path).diagnosis
    assert finding_of(judged, "straggler").cost_ns == us(60)
    rest = found(judged, "communication-exposed")
    assert rest.cost_ns == us(300)
    assert "in collectives besides the wait for rank 1, with no computation" in rest.sentence


@pytest.mark.parametrize(
    ("late", "severity"),
    [(49, None), (50, Severity.INFO), (99, Severity.INFO), (100, Severity.WARNING)],
)
def test_it_counts_from_its_limits_on(tmp_path: Path, late: int, severity: Severity | None) -> None:
    write_ranks(tmp_path, computing(300, 300, 300 + late))
    assert severity_of(found(report(tmp_path).diagnosis, "straggler")) is severity


def test_the_line_of_the_late_rank_is_named_on_every_rank(tmp_path: Path) -> None:
    """All run Python between steps, rank 1 for longer, at its line 400."""
    write_ranks(tmp_path, computing(150, 400, 150, part="counts"))
    for rank in range(3):
        finding = finding_of(report(tmp_path, rank).diagnosis, "straggler")
        assert (finding.place.rank, finding.place.file, finding.place.line) == (1, "train.py", 400)
        assert "there python takes 250 µs longer (train.py:400)" in finding.sentence


def test_a_rank_that_was_late_before_its_step_is_said_to(tmp_path: Path) -> None:
    """Rank 1 begins the only step 300 us later, and does in it what the other does."""
    ranks = computing(300, 300, steps=1, later_us=300)
    write_ranks(tmp_path, ranks)
    finding = finding_of(report(tmp_path).diagnosis, "straggler")
    assert "makes rank 0 wait 300 µs" in finding.sentence
    assert finding.sentence.endswith("no single part of its own step explains even half of that.")


def test_ranks_without_a_gpu_wait_in_the_librarys_threads(tmp_path: Path) -> None:
    ranks = []
    for takes in (200, 500):
        rank = training()
        for at in range(STEPS):
            rank.at(ms(at)).step().op("aten::mm", us(takes))
            rank.range("gloo:all_reduce", us(600 - takes)).at(ms(at + 1)).end()
        ranks.append(rank)
    write_ranks(tmp_path, ranks)
    assert finding_of(report(tmp_path).diagnosis, "straggler").cost_ns == us(300)
    assert finding_of(report(tmp_path, 1).diagnosis, "straggler").cost_ns == us(300)


def test_process_groups_are_those_that_the_file_names(tmp_path: Path) -> None:
    """Ranks 0 and 1 reduce on the stream on which 2 and 3 do, which come later by far."""
    ranks = computing(300, 400, 300, 600)
    for number, rank in enumerate(ranks):
        members = "[0, 1]" if number < 2 else "[2, 3]"
        for span in rank.spans:
            if span.work == "communication":
                span.args.update({"Process Group Name": "7", "Process Group Ranks": members})
    write_ranks(tmp_path, ranks)
    waits = waits_of_ranks(report(tmp_path).facts)
    assert (waits.between(0, 1), waits.between(0, 3)) == (us(100), 0)
    assert waits.between(2, 3) == us(300)
    for rank, late, cost in ((0, 1, 100), (1, 1, 100), (2, 3, 300), (3, 3, 300)):
        finding = finding_of(report(tmp_path, rank).diagnosis, "straggler")
        assert (finding.place.rank, finding.cost_ns) == (late, us(cost))


def test_the_order_of_the_ranks_changes_nothing(tmp_path: Path) -> None:
    """Nor do clocks that are hours apart."""
    takes = [300, 420, 610, 350]
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    write_ranks(tmp_path / "one", computing(*takes))
    shuffled = [2, 0, 3, 1]
    ranks = computing(*(takes[at] for at in shuffled))
    for number, rank in enumerate(ranks):
        told = {"rank": number, "world_size": 4}
        path = tmp_path / "two" / f"rank{number}.json"
        rank.write(path, distributedInfo=told, baseTimeNanoseconds=number * 10**13)
    one, two = (waits_of_ranks(report(tmp_path / name).facts) for name in ("one", "two"))
    for at, was in enumerate(shuffled):
        for other, was_other in enumerate(shuffled):
            assert two.between(at, other) == one.between(was, was_other)
    assert (one.latest(), shuffled[two.latest()]) == (2, 2)


def test_a_rank_that_cannot_be_read_is_named_and_the_others_are_compared(tmp_path: Path) -> None:
    write_ranks(tmp_path, computing(300, 300, 600))
    (tmp_path / "rank1.pt.trace.json").write_text('{"traceEvents": "none"')
    made = report(tmp_path)
    finding = finding_of(made.diagnosis, "straggler")
    assert finding.cost_ns == us(300)
    assert finding.would_raise_confidence == "the trace of rank 1"
    assert any(note.startswith("rank 1 cannot be read: ") for note in made.notes)
    table = described("report", as_object(made))["ranks"]
    assert [row["rank"] for row in table["rows"]] == [0, 2]


def without_evidence(folder: Path, case: str) -> Report:
    """A rank of which nothing tells whether it waits for others."""
    write_ranks(folder, computing(300, 600))
    other = folder / "rank1.pt.trace.json"
    if case == "a file alone":
        return make_report(load_subject(folder / "rank0.pt.trace.json"))
    if case == "one rank":
        other.unlink()
    if case == "others unreadable":
        other.write_text('{"traceEvents": "none"')
    if case == "no collectives":
        ranks = [training().repeat(STEPS, lambda t: t.step(ms(1))) for _ in range(2)]
        write_ranks(folder, [rank.launch("gemm", us(5)) for rank in ranks])
    if case == "others do something else":
        told = {"rank": 1, "world_size": 2}
        training().step().all_reduce(us(9)).all_reduce(us(9)).end().write(
            other, distributedInfo=told
        )
    return report(folder)


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        ("a file alone", "the traces of the other ranks have not been read"),
        ("one rank", "the traces of the other ranks are missing"),
        ("others unreadable", "no trace of another rank can be read: rank 1 cannot be read: "),
        ("no collectives", "the traces of fewer than two ranks have collectives"),
        ("others do something else", "no two ranks call the same collectives in the same order"),
    ],
)
def test_what_is_missing_is_said(tmp_path: Path, case: str, reason: str) -> None:
    judged = without_evidence(tmp_path, case).diagnosis
    assert found(judged, "straggler") is None
    assert reasons(judged)["straggler"].startswith(reason)


def test_one_process_alone_is_not_asked_about(tmp_path: Path) -> None:
    path = training().repeat(4, lambda t: t.step(ms(1))).write(tmp_path / "trace.json")
    judged = make_report(load_subject(path)).diagnosis
    assert "straggler" not in reasons(judged)


def test_the_report_holds_the_ranks(tmp_path: Path) -> None:
    write_ranks(tmp_path, computing(300, 400, 600))
    made = make_report(load_subject(tmp_path))
    table = described("report", as_object(made))["ranks"]
    assert table["shown"] == 0
    assert [row["mean"] for row in table["rows"]] == [ms(1)] * 3
    assert [row["parts"]["gpu compute"] for row in table["rows"]] == [us(300), us(400), us(600)]
    exposed = [row["parts"]["exposed communication"] for row in table["rows"]]
    assert exposed == [us(350), us(250), us(50)]
    assert [row["caused"] for row in table["rows"]] == [0, 0, us(500)]
    assert table["waits_ns"] == {
        "0": {"1": 0, "2": us(300)},
        "1": {"0": 0, "2": us(200)},
        "2": {"0": 0, "1": 0},
    }
    assert (table["slow_rank"]["rank"], table["slow_rank"]["lag"]) == (2, us(300))
    lines = render(made).split("\n")
    at = lines.index("Ranks, mean step; waits caused: how long all others wait for this rank")
    assert lines[at + 2].split() == ["*", "0", "1.0", "ms", "300", "µs", "350", "µs", "0", "ns"]
    assert lines[at + 4].split() == ["2", "1.0", "ms", "600", "µs", "50", "µs", "500", "µs"]


def test_ranks_that_are_even_hold_up_nobody(tmp_path: Path) -> None:
    write_ranks(tmp_path, computing(300, 300, 300))
    made = report(tmp_path)
    assert found(made.diagnosis, "straggler") is None
    assert "straggler" not in reasons(made.diagnosis)
    assert described("report", as_object(made))["ranks"]["slow_rank"] is None


def test_the_trace_of_the_late_rank_may_go_meanwhile(tmp_path: Path) -> None:
    write_ranks(tmp_path, computing(150, 400, part="counts"))
    made = report(tmp_path)
    facts = type(made.facts)(None, made.facts.analysis, beside=made.facts.beside)
    assert traced_ranks(facts).shown == 0
    (tmp_path / "rank1.pt.trace.json").unlink()
    assert straggler_place(facts).line is None
