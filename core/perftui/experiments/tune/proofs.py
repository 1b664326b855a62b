"""The proofs of fixes that a tuning tried, kept where whoever opens its runs finds them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from perftui.experiments.trial.progress import Progress
from perftui.experiments.trial.proof import keep_proof, read_proof, write_proof
from perftui.experiments.tune.journal import Journal
from perftui.fixes.model import FixOption
from perftui.run.layout import trials_of

_EARLIER = "measured before "


def keep_proofs(
    journal: Journal, option: FixOption, progress: Progress, directory: Path, now_ns: int
) -> None:
    """Keep what the pairs so far prove of ``option``: of the run that is tuned, in ``directory``,
    and of the run that it was tried on, where that is another one. The former then says on top of
    what, and never takes the place of another change by the same fix, which that run is offered.

    Raises:
        OSError: a proof cannot be written.
    """
    if not journal.kept:
        keep_proof(option, progress, directory, now_ns)
        return
    keep_proof(option, progress, trials_of(Path(journal.base)), now_ns)
    old = read_proof(directory, option.fix)
    if old is None or old.title == option.title:
        kept = ", ".join(one.title for one in journal.kept)
        noted = replace(progress, notes=(*progress.notes, f"measured on top of {kept}"))
        keep_proof(option, noted, directory, now_ns)


def carry_proofs(before: Journal, after: Journal, directory: Path) -> None:
    """Note beside the run recorded last what is known, from the one before it, of the fixes that
    were not kept: it is still offered some of them. ``directory`` is that of the run that is tuned.

    Raises:
        OSError: a proof cannot be written.
    """
    known = directory if before.base == before.first else trials_of(Path(before.base))
    for attempt in after.left:
        proof = read_proof(known, attempt.fix)
        if proof is not None and proof.title == attempt.title:
            notes = proof.notes
            if not any(note.startswith(_EARLIER) for note in notes):
                notes = (*notes, f"{_EARLIER}{after.kept[-1].title}")
            write_proof(replace(proof, notes=notes), trials_of(Path(after.base)))
