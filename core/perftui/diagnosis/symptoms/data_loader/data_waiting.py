"""What all rules about a wait for data share: who waits, where batches are made, what answers."""

from __future__ import annotations

from collections.abc import Sequence

from perftui.analysis.model import GapCause
from perftui.diagnosis.model import Figure
from perftui.diagnosis.rule import Claim, Lost
from perftui.diagnosis.symptoms.data_loader import data_figures as figures
from perftui.diagnosis.symptoms.data_loader.wait_limits import WAIT_LIMITS
from perftui.facts.data_loader.batch_place import batch_place
from perftui.facts.data_loader.input_wait import InputWait, input_wait
from perftui.facts.data_loader.loader import LoaderFacts, training_loader
from perftui.facts.data_loader.loader_work import loader_work
from perftui.facts.fact import Facts
from perftui.facts.gpu.gpu import has_gpu

WAIT = Claim(idle=GapCause.INPUT_WAIT, phase="input_wait")

FIRST_READING = "files were read for the first time: the latest third of the steps hardly waits"
"""Why a wait is no fault of the training's."""

SATURATED = 0.8
"""Share of their time from which on workers make all the batches they can."""

WORKERS_IDLE = 0.5
"""Share of their time below which workers are idle enough for more of them to be of no use.
Measured: 0.78 with workers that held up the training, 0.44 with workers that kept up."""


AT_EPOCHS = 0.5
"""Share of all waiting from which on it is the beginning of epochs that waits."""


def waits_for_workers(facts: Facts) -> InputWait | None:
    """The wait of a run, where it is worth a warning and a loader with workers causes it."""
    wait, feeds = input_wait.or_none(facts), training_loader(facts)
    if wait is None or feeds is None or not feeds.num_workers or not wait.of.of_run:
        return None
    return wait if wait.wait >= WAIT_LIMITS.warning * wait.of.mean else None


def workers(facts: Facts) -> int:
    """Workers of the training loader, 0 where that has none or is not known."""
    feeds = training_loader(facts)
    return (feeds.num_workers or 0) if feeds else 0


def busy(facts: Facts) -> float | None:
    """Share of their time in which the workers make batches; None where it is not known."""
    made = loader_work(facts)
    return made.busy if made else None


def lost_to_workers(
    facts: Facts,
    wait: InputWait,
    because: str,
    more: Sequence[Figure] = (),
    fixes: tuple[str, ...] | None = None,
) -> Lost:
    """All of ``wait``, with ``because`` after the colon, and the figures of the loader."""
    return Lost(
        wait.wait,
        wait.of,
        f"{wait.sentence}: {because}.",
        (*figures.wait(wait, facts, WAIT_LIMITS), *more, *figures.loader_of_workers(facts)),
        place=batch_place(facts),
        fixes=data_fixes(wait, facts) if fixes is None else fixes,
        unproven=unproven(wait),
    )


def unproven(wait: InputWait) -> str:
    """What would prove that the device waits too."""
    if wait.exposed or not wait.of.of_run:
        return ""
    return "a profiled window that shows whether the GPU idles during the wait"


def data_fixes(wait: InputWait, facts: Facts) -> tuple[str, ...]:
    """What answers a wait for data: a known loader of a run can be changed, a trace's cannot."""
    feeds = training_loader(facts)
    if feeds is None or not wait.of.of_run:
        return ()
    return ("loader-workers", *pin(feeds, facts))


def pin(feeds: LoaderFacts, facts: Facts) -> tuple[str, ...]:
    """Pinned memory, where there is a GPU to copy to and the loader does not pin."""
    return ("loader-pin",) if has_gpu(facts) and feeds.pin_memory is False else ()
