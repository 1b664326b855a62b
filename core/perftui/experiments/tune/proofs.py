"""The proofs of fixes that a tuning tried, kept where whoever opens its runs finds them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from perftui.experiments.trial.proof import keep_proof, read_proof, write_proof
from perftui.experiments.trial.trial import Progress
from perftui.experiments.tune.journal import Journal
from perftui.fixes.model import FixOption
from perftui.run.layout import trials_of


def keep_proofs(
    journal: Journal, option: FixOption, progress: Progress, directory: Path, now_ns: int
) -> None:
    """Keep what the pairs so far prove of ``option``: of the run that is tuned, in ``directory``,
    and of the run that it was tried on, where that is another one. There it says on top of what.

    Raises:
        OSError: a proof cannot be written.
    """
    noted = progress
    if journal.kept:
        kept = ", ".join(one.title for one in journal.kept)
        noted = replace(progress, notes=(*progress.notes, f"measured on top of {kept}"))
        keep_proof(option, progress, trials_of(Path(journal.base)), now_ns)
    keep_proof(option, noted, directory, now_ns)


def carry_proofs(journal: Journal, directory: Path) -> None:
    """Note beside the run recorded last what was proven of the fixes that were not kept, in
    ``directory``: that run is still offered some of them.

    Raises:
        OSError: a proof cannot be written.
    """
    if not journal.kept:
        return
    before = f"measured before {journal.kept[-1].title}"
    for attempt in journal.left:
        proof = read_proof(directory, attempt.fix)
        if proof is not None:
            noted = replace(proof, notes=(*proof.notes, before))
            write_proof(noted, trials_of(Path(journal.base)))
