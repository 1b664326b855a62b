"""GPUs that tests ask: drivers whose calls that hang end with the test."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from perftui.telemetry import source
from perftui.telemetry.gpu import nvml_metrics
from tests.core.telemetry import fake_nvml
from tests.core.telemetry.fake_nvml import Driver

DriverOf = Callable[..., Driver]


@pytest.fixture
def driver_of() -> Iterator[DriverOf]:
    """Makes a driver of cards; calls that hang return at the end of the test."""
    made: list[Driver] = []

    def make(*cards: Any, **more: Any) -> Driver:
        made.append(Driver(*cards, **more))
        return made[-1]

    yield make
    for driver in made:
        driver.released.set()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counters that are renewed each millisecond, and answers that are waited for as long as it
    takes a machine that does something else."""
    monkeypatch.setattr(fake_nvml, "GPM_SECONDS", 0.001)
    monkeypatch.setattr(nvml_metrics, "SHORTEST_SECONDS", 0.0011)
    monkeypatch.setattr(source, "PATIENCE_SECONDS", 20.0)
