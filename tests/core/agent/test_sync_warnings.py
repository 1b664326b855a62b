"""torch's warnings of operations that wait, by a stand-in for CUDA that warns as torch does."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from types import FrameType, SimpleNamespace
from typing import Any

import pytest

from perftui.agent.windows.sync_calls import OPERATION, SyncCounter, SyncWarnings

SYNC = "called a synchronizing CUDA operation (Triggered internally at CUDAFunctions.cpp:1.)"
FIRST = "Synchronization debug mode is a prototype feature and does not yet detect all"


class Cuda:
    """What is used of torch there."""

    def __init__(self) -> None:
        self.mode = 0
        self.cuda = SimpleNamespace(get_sync_debug_mode=lambda: self.mode)
        self._C = SimpleNamespace(_cuda_set_sync_debug_mode=self.set)

    def set(self, mode: int) -> None:
        self.mode = mode
        if mode:
            warnings.warn(FIRST, stacklevel=2)

    def unique(self) -> None:
        if self.mode:
            warnings.warn(SYNC, stacklevel=2)


@pytest.fixture(autouse=True)
def as_found() -> Iterator[None]:
    """The script's filters and its way to show warnings, the same before and after."""
    filters, show = list(warnings.filters), warnings.showwarning
    yield
    assert list(warnings.filters) == filters
    assert warnings.showwarning is show


def test_each_operation_is_reported_with_its_line_and_none_is_shown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    callers: list[str] = []

    def told(frame: FrameType | None) -> None:
        while frame is not None and frame.f_code.co_filename != __file__:
            frame = frame.f_back
        callers.append(frame.f_code.co_name if frame is not None else "nobody")

    cuda = Cuda()
    found = SyncWarnings(cuda, told)
    found.begin()
    for _ in range(3):
        cuda.unique()
    found.end()
    cuda.unique()
    assert callers == ["unique"] * 3
    assert cuda.mode == 0
    assert capsys.readouterr().err == ""


def test_scripts_that_turn_warnings_into_errors_do_not_meet_ours() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cuda, count = Cuda(), [0]
        found = SyncWarnings(cuda, lambda _: count.append(1))
        found.begin()
        cuda.unique()
        with pytest.raises(UserWarning, match="their own"):
            warnings.warn("their own", stacklevel=1)
        found.end()
    assert sum(count) == 1


def test_other_warnings_are_shown_once_as_ever() -> None:
    shown: list[str] = []

    def warn() -> None:
        warnings.warn("their own", stacklevel=1)

    with warnings.catch_warnings():
        warnings.simplefilter("default")
        warnings.showwarning = lambda message, *_, **__: shown.append(str(message))
        warn()
        found = SyncWarnings(Cuda(), lambda _: None)
        found.begin()
        warn()
        warnings.warn("another", stacklevel=1)
        found.end()
        warn()
    assert shown == ["their own", "another"]


def test_a_script_that_asks_torch_itself_keeps_its_warnings() -> None:
    cuda = Cuda()
    cuda.mode = 1
    found = SyncWarnings(cuda, lambda _: pytest.fail("it is the script's"))
    found.begin()
    with pytest.warns(UserWarning, match="synchronizing"):
        cuda.unique()
    found.end()
    assert cuda.mode == 1


def on_device(torch: Any) -> Any:
    """A tensor that says it is not on the processor."""

    class OnDevice(torch.Tensor):  # type: ignore[misc, name-defined]
        is_cpu = False

    return torch.ones(1).as_subclass(OnDevice)


@pytest.fixture
def hunt(torch: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[SyncCounter, Cuda]]:
    """One that begins where CUDA is in use."""
    fake = Cuda()
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_sync_debug_mode", fake.cuda.get_sync_debug_mode)
    monkeypatch.setattr(torch._C, "_cuda_set_sync_debug_mode", fake.set, raising=False)
    monkeypatch.setattr("perftui.agent.windows.sync_calls._runs_compiled", lambda: False)
    before = dict(vars(torch.Tensor)), torch.cuda.synchronize
    hunt = SyncCounter(torch)
    assert hunt.begin() is None
    yield hunt, fake
    hunt.end()
    assert before == (dict(vars(torch.Tensor)), torch.cuda.synchronize)


def counts(hunt: SyncCounter) -> dict[str, int]:
    return {site["call"]: site["count"] for site in hunt.sites.found()}


def test_only_tensors_of_the_gpu_count_where_there_is_one(
    torch: Any, hunt: tuple[SyncCounter, Cuda]
) -> None:
    there = on_device(torch)
    there.item()
    torch.ones(1).item()
    float(there)
    assert counts(hunt[0]) == {"item": 1, "float": 1}


def test_copies_count_where_they_cross_and_wait(torch: Any, hunt: tuple[SyncCounter, Cuda]) -> None:
    there = on_device(torch)
    there.to("cpu")
    assert counts(hunt[0]) == {}
    crossing = SimpleNamespace(is_cpu=True)
    copies = hunt[0]._copies
    assert copies((there, "cpu"), {}, crossing)
    assert not copies((there, "cpu"), {"non_blocking": True}, crossing)
    assert not copies((there, "cpu", torch.float32, True), {}, crossing)
    assert copies((there, "cpu", torch.float32, False), {}, crossing)


def test_operations_that_no_name_tells_count_without_a_time(hunt: tuple[SyncCounter, Cuda]) -> None:
    hunt[1].unique()
    (site,) = hunt[0].sites.found()
    assert (site["call"], site["count"], site["time"]) == (OPERATION, 1, -1)
    assert site["file"] == __file__


def test_a_call_that_torch_warns_of_counts_once(torch: Any, hunt: tuple[SyncCounter, Cuda]) -> None:
    class Warning_(torch.Tensor):  # type: ignore[misc, name-defined]  # noqa: N801
        is_cpu = False

        @classmethod
        def __torch_function__(cls, *args: Any, **kwargs: Any) -> Any:
            hunt[1].unique()
            return super().__torch_function__(*args, **kwargs)

    torch.ones(1).as_subclass(Warning_).item()
    assert counts(hunt[0]) == {"item": 1}


def test_other_threads_are_not_counted(torch: Any, hunt: tuple[SyncCounter, Cuda]) -> None:
    there = on_device(torch)
    for work in (there.item, hunt[1].unique):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert counts(hunt[0]) == {}


def test_a_call_that_cannot_be_counted_succeeds_and_that_is_reported(
    torch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Odd(torch.Tensor):  # type: ignore[misc, name-defined]
        @property
        def is_cpu(self) -> bool:
            raise ValueError("nobody knows")

    monkeypatch.setattr("perftui.agent.windows.sync_calls._runs_compiled", lambda: False)
    hunt = SyncCounter(torch)
    assert hunt.begin() is None
    assert torch.tensor(3).as_subclass(Odd).item() == 3
    with pytest.raises(RuntimeError, match="not all synchronizing calls were counted"):
        hunt.end()
    assert "item" not in vars(torch.Tensor)
