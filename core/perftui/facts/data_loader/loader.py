"""What is known of the data loader that feeds the training steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from perftui import format as fmt
from perftui.facts.fact import Facts, fact
from perftui.facts.journal_rows import notes_of
from perftui.facts.settings import fields_of
from perftui.facts.step.steps import step_kind
from perftui.run.worker_curve import WorkerCurve, read_worker_curve

PREFETCH_FACTOR = 2
"""What PyTorch takes for a ``DataLoader`` with workers where the script does not say."""


class LoaderFacts(msgspec.Struct, frozen=True):
    """Configuration of one ``DataLoader`` as it was when it last began an epoch.

    None stands for what the run does not name, everywhere.
    """

    num_workers: int | None = None
    pin_memory: bool | None = None
    persistent_workers: bool | None = None
    prefetch_factor: int | None = None
    batch_size: int | None = None
    dataset: str | None = None
    """Class name of the dataset."""
    is_iterable: bool | None = None
    """An ``IterableDataset``, which every worker would read whole unless it shards itself."""
    shards: bool | None = None
    """An iterable dataset that asks for its worker's number."""
    holds_files: bool | None = None
    """The dataset keeps open files or connections, which workers would share."""
    holds_cuda: bool | None = None
    """The dataset keeps tensors of a GPU, which a forked worker cannot touch."""
    collate_is_lambda: bool | None = None
    """Cannot be sent to workers that are spawned rather than forked."""
    start_method: str | None = None
    """``fork``, ``spawn`` or ``forkserver``: how workers would be started."""
    path: str | None = None
    """Where the dataset's data lies: the first path among its attributes."""
    mount: str | None = None
    filesystem: str | None = None
    """The mount that holds it, and its kind: ``ext4``, ``nfs4``, or the scheme of a URL."""
    file: str | None = None
    line: int | None = None
    numbers: tuple[int, ...] = ()
    """Numbers of all loaders that the same call has made, as in the rows of their workers."""
    certain: bool = True
    """Whether this loader is known to feed the training; else it is the likeliest."""
    others: tuple[str, ...] = ()
    """``file:line`` of other calls whose loaders are known to feed the training as well."""

    @property
    def queue_depth(self) -> int:
        """Batches that its workers may hold ready; 0 without workers."""
        return (self.num_workers or 0) * (self.prefetch_factor or PREFETCH_FACTOR)

    @property
    def source(self) -> str | None:
        """``file:line`` of the call that made it."""
        return fmt.source(self.file, self.line)


@fact
def training_loader(facts: Facts) -> LoaderFacts | None:
    """The loader that feeds the steps that are judged; None where none is known.

    A loader is known as that by its role, which is noted once it has fed a step. Before that it
    is the one that shuffles, as training loaders do and evaluation loaders do not; else the first,
    since scripts build it first. Of several made by one call, such as one an epoch, it is the
    newest.
    """
    latest: dict[Any, Mapping[str, Any]] = {}
    for data in notes_of(facts.events, "loader"):
        key = data.get("id", _call(data))
        latest[key] = {**latest.get(key, {}), **data}
    loaders = list(latest.values())
    if not loaders:
        return None
    trained = [data for data in loaders if data.get("role") == step_kind(facts)]
    shuffled = [data for data in loaders if data.get("shuffle")]
    likely = trained or shuffled or loaders
    of_first_call = [data for data in likely if _call(data) == _call(likely[0])]
    calls = list(dict.fromkeys(_call(data) for data in trained or loaders))
    others = [fmt.source(*call) for call in calls if trained and call != _call(likely[0])]
    numbers = tuple(data["id"] for data in of_first_call if isinstance(data.get("id"), int))
    known = fields_of(LoaderFacts, of_first_call[-1])
    return LoaderFacts(
        **{
            **known,
            "numbers": numbers,
            "certain": len(calls) == 1 or bool(trained),
            "others": tuple(other for other in others if other),
        }
    )


def _call(data: Mapping[str, Any]) -> tuple[Any, Any]:
    return data.get("file"), data.get("line")


@fact
def measured_workers(facts: Facts) -> WorkerCurve | None:
    """The curve that a trial measured; None where none has."""
    return read_worker_curve(facts.run.root) if facts.run else None
