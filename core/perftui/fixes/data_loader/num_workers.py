"""``loader-workers``: fetch batches in worker processes while the step computes."""

from __future__ import annotations

import ast

from perftui import format as fmt
from perftui.facts.cpu.machine import busy_host, machine_use, ranks_here
from perftui.facts.data_loader.loader import LoaderFacts, training_loader
from perftui.facts.data_loader.loader_work import fetch_cpu, fetch_demand
from perftui.facts.data_loader.measured_workers import measured_workers
from perftui.facts.fact import Facts
from perftui.fixes.call_source import CallChange
from perftui.fixes.data_loader.loader import loader_change
from perftui.fixes.data_loader.worker_count import worker_count, worker_cpu
from perftui.fixes.data_loader.worker_gain import LEAST_GAIN, step_cost
from perftui.fixes.fix import Fix, offered
from perftui.fixes.launched_script import script_of
from perftui.fixes.model import FixOption, Risk
from perftui.script.program import PatchRefusedError, parse_program, read_source

ENOUGH_IDLE = 0.75
"""Share of the cores new workers need that has to be idle before: other programs come and go, and a
step that computes on one thread of two cores leaves a little less than one."""


def with_workers(facts: Facts, count: int) -> FixOption | None:
    """The fix with ``count`` workers, whatever these would gain."""
    loader = training_loader(facts)
    if loader is None:
        return None
    return offered(WORKERS, _change(facts, loader, count, _unsafe(facts, loader)), facts)


def _more_workers(facts: Facts) -> CallChange | None:
    """More workers for the loader that feeds the training: as many as were measured to serve it
    best, else as many as the machine carries."""
    loader = training_loader(facts)
    if loader is None:
        return None
    curve = measured_workers(facts)
    if curve is not None and curve.best is not None:
        return _change(facts, loader, curve.best, _unsafe(facts, loader))
    wanted = _carried(facts, loader.num_workers or 0)
    return _change(facts, loader, wanted, refused(facts, loader, wanted))


def _change(facts: Facts, loader: LoaderFacts, wanted: int, why_not: str) -> CallChange:
    current = loader.num_workers or 0
    more = f"more than {fmt.several(current, 'worker')}"
    title = f"num_workers {current} -> {wanted}" if wanted else more
    arguments = {"num_workers": wanted, "persistent_workers": True}
    return loader_change(loader, title, arguments, _risks(facts, wanted - current), why_not)


def _carried(facts: Facts, current: int) -> int:
    """Workers that the machine carries, 0 where it carries no more than there are."""
    machine = machine_use(facts)
    elsewhere = machine.other_cores or 0.0
    taken = worker_cpu(facts)
    return worker_count(
        current,
        machine.cores,
        ranks=ranks_here(facts),
        busy_elsewhere=elsewhere,
        idle=machine.idle_cores,
        fetch_cpu=_fetching(facts),
        carried=taken.carried(machine.cores, elsewhere) if taken and machine.cores else None,
    )


def _fetching(facts: Facts) -> float | None:
    """Share of fetching that takes a core. What was only measured as computed is that where no
    other program takes the cores."""
    demand = fetch_demand(facts)
    return fetch_cpu(facts) if demand is None and not busy_host(facts) else demand


def _risks(facts: Facts, added: int) -> tuple[Risk, ...]:
    """Workers that compute take cores from a step that computes on all of them.

    Measured on two cores: a network with two intra-op threads and one worker took 1.4 times as
    long as without, as its threads wait for one another; with one thread it was 1.6 times faster.
    """
    risks = (Risk.ORDER, Risk.RANDOMNESS, Risk.MEMORY)
    idle = machine_use(facts).idle_cores
    taken = worker_cpu(facts)
    computes = _fetching(facts)
    each = taken.worker if taken else 1.0 if computes is None else computes
    needed = added * each
    scarce = idle is not None and idle < ENOUGH_IDLE * needed
    return (Risk.CORES, *risks) if scarce else risks


def refused(facts: Facts, loader: LoaderFacts, wanted: int) -> str:
    """Why workers would be wrong or useless here, empty where nothing speaks against them."""
    if wanted == 0:
        cores = machine_use(facts).cores
        if cores is None:
            return "it is not known how many cores are free for more workers"
        return f"no core is free for more workers ({_taken(facts, cores)})"
    return _unsafe(facts, loader) or _without_gain(facts, wanted)


def _unsafe(facts: Facts, loader: LoaderFacts) -> str:
    """Why workers would be wrong here, empty where nothing speaks against them."""
    if loader.is_iterable and not loader.shards:
        return (
            "the dataset is iterable and does not shard itself across workers: each worker would "
            "yield every sample"
        )
    if loader.holds_files:
        return "the dataset holds open files or generators, which workers would share"
    if loader.holds_cuda:
        return "the dataset holds tensors on the GPU, which forked workers cannot use"
    if loader.dataset == "TensorDataset":
        return (
            "the samples are already tensors in memory: copying them between processes costs more"
        )
    return _refused_by_spawn(facts, loader)


def _without_gain(facts: Facts, wanted: int) -> str:
    """Where the step would hardly be shorter, or longer."""
    cost = step_cost(facts)
    if cost is None or cost.gain(wanted) >= LEAST_GAIN:
        return ""
    made = fmt.duration(cost.make_cpu + cost.make_blocked)
    handed = fmt.duration(cost.packed + cost.unpacked)
    now, then = fmt.duration(cost.now), fmt.duration(cost.with_workers(wanted))
    return (
        f"{fmt.several(wanted, 'worker')} would gain nothing: a batch takes {made} to make and "
        f"{handed} to hand over, {cost.cores:.1f} cores are left for both, and the step would take "
        f"{then} instead of {now}"
    )


def _taken(facts: Facts, cores: int) -> str:
    of = fmt.several(cores, "core")
    taken = worker_cpu(facts)
    if taken is None:
        return f"of {of}"
    training = f"the training {taken.training:.1f} without waiting"
    return f"a busy worker uses {taken.worker:.1f} of {of}, {training}"


def _refused_by_spawn(facts: Facts, loader: LoaderFacts) -> str:
    """Workers that are not forked import the script again and receive everything pickled."""
    if loader.start_method in (None, "fork"):
        return ""
    if loader.collate_is_lambda:
        return f"collate_fn is a lambda, which cannot be sent to workers ({loader.start_method})"
    again = f"workers start by {loader.start_method}, which runs the script again"
    guarded = _has_main_guard(facts)
    if guarded is None:
        return f"{again}, and the command does not show which script that is"
    if not guarded:
        return f'{again}: it needs `if __name__ == "__main__":` around the training'
    return ""


def _has_main_guard(facts: Facts) -> bool | None:
    """Whether the script is certain to test ``__name__``; None where it cannot be read."""
    manifest = facts.manifest
    script = script_of(manifest)
    if script is None:
        return None
    try:
        program = parse_program(read_source(script.path))
    except PatchRefusedError:
        return None
    tests = (node.test for node in program.tree.body if isinstance(node, ast.If))
    return any("__name__" in ast.unparse(test) for test in tests)


WORKERS = Fix(
    id="loader-workers",
    what="fetch batches in worker processes while the step computes",
    explanation=(
        "Worker processes fetch and collate batches while the step computes, and stay alive "
        "between epochs. Samples stay the same, and so does their order in the first epoch; later "
        "epochs are shuffled differently, because persistent workers draw fewer random numbers. "
        "Random augmentation draws different values: each worker has its own seed. Each worker "
        "holds a copy of the data that the dataset touches."
    ),
    change=_more_workers,
    risks=(Risk.CORES, Risk.ORDER, Risk.RANDOMNESS, Risk.MEMORY),
)
