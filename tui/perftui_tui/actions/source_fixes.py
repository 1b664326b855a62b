"""Fixes written to the source, and taken back."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from perftui_tui.keys.own_keys import hint

if TYPE_CHECKING:
    from perftui.diagnosis.model import Finding
    from perftui.fixes.apply_and_undo import AppliedPatch
    from perftui.fixes.option import FixOption, Patch
    from perftui.run.reader import RunSnapshot
    from perftui_tui.actions.host import Host
    from perftui_tui.dialogs.choice import ChoiceDialog


@dataclass(frozen=True)
class Written:
    """A patch that was written to the source, and where the original is."""

    applied: AppliedPatch
    store: Path
    option: FixOption
    root: Path
    """The run that showed what to change."""
    gain: str
    """The measured gain; empty where nothing was measured before."""


def by_hand(option: FixOption | None, finding: Finding | None) -> str:
    """What to write by hand, and where, for a person."""
    from perftui.diagnosis.rules import answer_to

    what = (option.advice if option else "") or (answer_to(finding) if finding else "")
    if not what:
        return (option.why_not if option else "") or hint(
            "{app.show('diagnosis')} shows what to write, and where"
        )
    why = f"{option.why_not}; " if option and option.why_not else ""
    place = finding.place.short if finding and finding.place else ""
    if option and option.file and option.line:
        place = f"{option.file}:{option.line}"
    at = f" at {place}" if place and place not in what else ""
    then = hint("then {diagnosis.rerun} runs it again")
    return f"{why}by hand{at}: {what}; {then}"


class SourceFixes:
    """Writes and restores fixes in the source on threads, never before their diff was shown."""

    def __init__(self, app: Host) -> None:
        self._app = app
        self.written: tuple[Written, ...] = ()
        """Patches written in this session and not taken back, the newest last: ``undo`` takes that
        one back."""
        self.undone: frozenset[str] = frozenset()
        """Identifiers of fixes that were taken back in this session."""
        self.measuring: Callable[[], str] = str
        """The name of what makes runs of the source now; empty where nothing does."""
        self._can_undo: dict[Path, bool] = {}
        self._tuned: dict[Path, frozenset[str]] = {}
        """Fixes that tunings wrote and that were not taken back, by the run they began with."""

    def fixes_of(self, root: Path) -> frozenset[str]:
        """Identifiers of the fixes of the run at ``root`` that were written in this session."""
        chosen = frozenset(row.option.fix for row in self.written if row.root == root)
        return chosen | self._tuned.get(root, frozenset())

    def write(
        self, option: FixOption | None, gain: str = "", finding: Finding | None = None
    ) -> None:
        """Show the diff of ``option`` with its measured ``gain``, and write it on yes; where it has
        none, say what to write by hand for ``finding``."""
        if option is None or option.patch is None:
            self._app.warn(by_hand(option, finding))
        elif option.is_written:
            self._app.warn(hint("it is written already: {diagnosis.undo_fix} undoes it"))
        elif self._may_change():
            self._app.on_thread(partial(self._offer, option, option.patch, gain))

    def undo(self, root: Path | None = None) -> None:
        """Restore the source that was written in this session, or ask for what was written last
        beside the run at ``root``, by default the one on screen."""
        if not self._may_change():
            return
        if self.written:
            newest = self.written[-1]
            self._app.on_thread(partial(self._restore, newest.applied, newest.store))
        else:
            self._app.on_thread(partial(self._find_earlier, root or self._app.target))

    def can_undo(self, root: Path) -> bool:
        """Whether a fix was written, here or beside the run at ``root``."""
        from perftui.fixes.apply_and_undo import last_applied, patch_store

        if root not in self._can_undo:
            self._can_undo[root] = last_applied(patch_store(root)) is not None
        return bool(self.written) or self._can_undo[root]

    def wrote(self, run: RunSnapshot | None, finding: Finding | None) -> str:
        """A sentence where a fix wrote the line of ``finding`` before ``run``, else empty."""
        from perftui.fixes.apply_and_undo import applied_to, original_of, patch_store

        place = finding.place if finding else None
        if run is None or place is None or not place.file or not place.line:
            return ""
        path, store = Path(place.file), patch_store(run.root)
        with suppress(OSError, IndexError):
            line = path.read_bytes().splitlines()[place.line - 1]
            for one in applied_to(path, store):
                is_new = line not in original_of(one, store).read_bytes().splitlines()
                if is_new and one.applied_ns < run.manifest.started_ns:
                    return f"perftui wrote this line ({one.title}): this is what is left there"
        return ""

    def _may_change(self) -> bool:
        """Whether no runs are made of the source as it is; where some are, that is shown."""
        if name := self.measuring():
            stop = hint("{app.trial} can stop it")
            self._app.warn(f"a {name} is running, and a changed source would spoil it: {stop}")
        return not name

    def tuned(self, root: Path, fix: str) -> None:
        """Note that a tuning of the run at ``root`` wrote ``fix``: the next undo asks first, as it
        is newer than what was written here."""
        self.written, self._can_undo = (), {}
        self._tuned[root] = self._tuned.get(root, frozenset()) | {fix}

    def _offer(self, option: FixOption, patch: Patch, gain: str) -> None:
        """Ask to write ``patch``: it may be written already, as ended runs are not read again."""
        from perftui.fixes.apply_and_undo import check_unchanged
        from perftui.run.layout import RunLayout
        from perftui.run.manifest import read_manifest
        from perftui.run.origin import check_run
        from perftui_tui.dialogs.experiment import write_dialog

        check_unchanged(patch)
        root = self._app.target
        check_run(root, read_manifest(RunLayout(root).manifest))
        self._ask(partial(write_dialog, option, patch, gain), self._write, option, patch, gain)

    def _ask(
        self,
        dialog: Callable[[Callable[[], None]], ChoiceDialog],
        work: Callable[..., None],
        *given: object,
    ) -> None:
        """Show a dialog from a thread, and do the work on one where the answer is yes."""
        do = partial(self._app.on_thread, partial(work, *given))
        self._app.call_from_thread(lambda: self._app.ask(dialog(do)))

    def _write(self, option: FixOption, patch: Patch, gain: str) -> None:
        from perftui.fixes.apply_and_undo import apply_patch, patch_store

        root = self._app.target
        store = patch_store(root)
        applied = apply_patch(patch, store, option.title, option.fix)
        self.written = (*self.written, Written(applied, store, option, root, gain))
        keys = hint("{diagnosis.undo_fix} undoes it, {diagnosis.rerun} runs it again")
        self._done(f"{patch.path.name} written; {keys}")

    def _find_earlier(self, root: Path) -> None:
        """Ask to undo the last patch beside the run: it may be anybody's, so it is shown before."""
        from perftui.fixes.apply_and_undo import last_applied, patch_store, undoing
        from perftui_tui.dialogs.experiment import undo_dialog

        store = patch_store(root)
        applied = last_applied(store)
        if applied is None:
            self._app.call_from_thread(self._app.warn, "there is nothing to undo here")
            return
        patch = undoing(applied, store)
        self._ask(partial(undo_dialog, applied.title, patch), self._restore, applied, store)

    def _restore(self, applied: AppliedPatch, store: Path) -> None:
        from perftui.fixes.apply_and_undo import undo

        path = undo(applied, store)
        self.undone |= {applied.fix}
        self._can_undo = {}
        self.written = tuple(row for row in self.written if row.applied is not applied)
        self._tuned = {run: fixes - {applied.fix} for run, fixes in self._tuned.items()}
        self._done(f"{path.name} restored byte for byte")

    def _done(self, text: str) -> None:
        self._app.call_from_thread(self._app.notify, text, markup=False)
        self._app.call_from_thread(self._app.show_proofs)
