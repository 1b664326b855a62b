"""Tries the fixes of a training one after the other, and keeps those that are proven."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from perftui.experiments.journal import (
    Attempt,
    Journal,
    Kept,
    attempt_of,
    carry_proofs,
    journal_of,
    keep_proofs,
    write_journal,
)
from perftui.experiments.rerun import kept_text, missed, repeat_launch, rerun_launch, text_override
from perftui.experiments.trial import paired_runs, trial
from perftui.experiments.trial_runs import (
    NO_PAIRS,
    Progress,
    TrialCancelledError,
    TrialError,
    TrialSetup,
    facts_of,
    run_at,
    run_to_end,
)
from perftui.experiments.trial_verdict import Outcome
from perftui.fixes.apply_and_undo import apply_patch, patch_store, undo
from perftui.fixes.option import FixOption
from perftui.recorder.launch import Launch
from perftui.script.command_line import launched_script


def record(launch: Launch, setup: TrialSetup) -> Path:
    """Run ``launch`` with windows and samples; the directory of the run."""
    options = replace(launch.options, max_steps=setup.steps, spares_files=True)
    root, manifest = run_to_end(replace(launch, options=options), setup.cancelled)
    if manifest.exit_code:
        raise TrialError(f"with the fix the run ended with exit code {manifest.exit_code}: {root}")
    return root


PAIRS = 9
"""Most pairs for each fix: what nine do not show is worth no more time beside the others."""


@dataclass(frozen=True)
class Trying:
    """A fix is being tried; of the end, all that was kept, as ``together`` makes it one fix."""

    option: FixOption
    progress: Progress


@dataclass(frozen=True)
class Keeping:
    """A fix is proven: it is written to ``path``, or kept at run time where that is None, and the
    training is recorded with it."""

    option: FixOption
    path: Path | None


@dataclass(frozen=True)
class Tuned:
    """The end: ``final`` holds all that was kept against the training as it was, None where
    nothing was kept."""

    journal: Journal
    final: Progress | None


Event = Trying | Keeping | Journal | Tuned


def tune(
    first: Path,
    setup: TrialSetup,
    offers: Callable[[Path], Sequence[FixOption]],
    deadline: float = float("inf"),
) -> Iterator[Event]:
    """Tune the training of the run at ``first``; the journal is kept beside the runs of trials.

    The fixes that ``offers`` has for a run are tried in their order, each on top of what was kept;
    what is proven is written to the source where it can be, and the training diagnosed anew. No fix
    is begun after ``deadline``, by ``time.monotonic``. A journal of the same run is gone on with.
    Yields the journal at the beginning and after each fix. What a fix is found to gain is kept as
    its proof, as that of a trial is.

    Raises:
        TrialError: the training itself fails, or is too short to judge.
        TrialCancelledError: ``cancelled`` was set. What was proven until then stays.
        OSError: a run cannot be started, or the journal or a proof not be written.
    """
    directory, journal = setup.directory, journal_of(first, setup.directory)
    yield journal
    if not journal.is_recorded:
        journal = yield from _record_last(journal, setup)
    while time.monotonic() < deadline:
        option = _next(journal, offers(Path(journal.base)))
        if setup.cancelled.is_set():
            raise TrialCancelledError
        if option is None:
            break
        option, attempt = yield from _try(journal, option, setup)
        if attempt.outcome == Outcome.FASTER.value:
            before = journal
            journal = yield from _keep(journal, option, attempt, setup)
            if journal.base != before.base:
                carry_proofs(before, journal, directory)
        else:
            journal = journal.after(attempt)
        write_journal(directory, journal)
        yield journal
    final = yield from _final(journal, setup)
    yield Tuned(journal, final)


def together(journal: Journal) -> FixOption:
    """All that was kept as one fix, with the risks of each."""
    risks = dict.fromkeys(risk for attempt in journal.kept for risk in attempt.risks)
    explanation = "all fixes that were kept, compared with the original training"
    return FixOption("", "all fixes together", explanation, tuple(risks))


def _next(journal: Journal, options: Sequence[FixOption]) -> FixOption | None:
    """The first fix that can be tried and was not."""
    tried = {(attempt.fix, attempt.title) for attempt in journal.attempts}
    triable = (option for option in options if option.is_triable)
    return next((option for option in triable if (option.fix, option.title) not in tried), None)


def _try(
    journal: Journal, option: FixOption, setup: TrialSetup
) -> Generator[Trying, None, tuple[FixOption, Attempt]]:
    """Try a fix, maybe with another number of workers; that fix, and its attempt."""
    run = run_at(Path(journal.base))
    progress = NO_PAIRS
    yield Trying(option, progress)
    try:
        for progress in trial(run, option, setup, PAIRS):
            option = progress.option or option
            keep_proofs(journal, option, progress, setup.directory, time.time_ns())
            yield Trying(option, progress)
    except TrialError as error:
        if not progress.pairs and not journal.attempts:
            # Nothing has run yet: the training itself may have failed.
            raise
        return option, Attempt(option.fix, option.title, Outcome.INCONCLUSIVE.value, str(error))
    return option, attempt_of(option, progress)


def _keep(
    journal: Journal, option: FixOption, attempt: Attempt, setup: TrialSetup
) -> Generator[Keeping, None, Journal]:
    """Write the fix, or keep it at run time, and record what the training is with it."""
    run = run_at(Path(journal.base))
    if option.patch is not None:
        # One store for all of them, so that each can be taken back beside the run that was tuned.
        store = patch_store(Path(journal.first))
        originals = dict(journal.originals)
        # A copy of the file as it is before it is written for the first time.
        copy = kept_text(store, option.patch.path, option.patch.before)
        originals.setdefault(str(option.patch.path), str(copy))
        applied = apply_patch(option.patch, store, option.title, option.fix)
        proven = replace(attempt, kept=Kept.WRITTEN, path=applied.path)
        written = replace(journal.after(proven), originals=originals, is_recorded=False)
        # It is known before the run is made: whatever ends that run, the fix is in the source.
        write_journal(setup.directory, written)
        yield Keeping(option, option.patch.path)
        try:
            root = record(rerun_launch(run, option, is_written=True), setup)
        except TrialError as error:
            undo(applied, store)
            failed = Outcome.INCONCLUSIVE.value
            return journal.after(replace(attempt, outcome=failed, headline=str(error)))
        if not missed(facts_of(root)):
            return replace(written, base=str(root), is_recorded=True)
        undo(applied, store)
    if option.override is None:
        return journal.after(replace(attempt, outcome=Outcome.NO_EFFECT.value))
    yield Keeping(option, None)
    root = record(rerun_launch(run, option), setup)
    by_hand = " ".join(option.argv) if option.argv else option.advice
    proven = replace(attempt, kept=Kept.OVERRIDE, advice=by_hand)
    return replace(journal.after(proven), base=str(root))


def _record_last(journal: Journal, setup: TrialSetup) -> Generator[Keeping, None, Journal]:
    """Record the training with the last fix that was written, which was not done before."""
    last = journal.kept[-1]
    yield Keeping(FixOption(last.fix, last.title, ""), Path(last.path or ""))
    root = record(replace(repeat_launch(run_at(Path(journal.base))), name=last.title), setup)
    recorded = replace(journal, base=str(root), is_recorded=True)
    carry_proofs(journal, recorded, setup.directory)
    write_journal(setup.directory, recorded)
    return recorded


def _final(journal: Journal, setup: TrialSetup) -> Generator[Trying, None, Progress | None]:
    """All that was kept against the training as it was; what the last pair says."""
    if not journal.kept:
        return None
    before, after = _as_it_was(journal), repeat_launch(run_at(Path(journal.base)))
    option, progress = together(journal), None
    yield Trying(option, NO_PAIRS)
    for progress in paired_runs(before, after, setup, risks=option.risks):
        yield Trying(option, progress)
    return progress


def _as_it_was(journal: Journal) -> Launch:
    """The launch of the first run, with the text that its files had then."""
    launch = repeat_launch(run_at(Path(journal.first)))
    script = launched_script(launch.command, launch.cwd)
    word = script.word if script else None
    if word is None:
        return launch
    texts = tuple(
        text_override(launch.command, word, Path(path), Path(copy))
        for path, copy in journal.originals.items()
    )
    return replace(launch, overrides=(*launch.overrides, *texts))
