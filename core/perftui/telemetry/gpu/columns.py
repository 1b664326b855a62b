"""Every column that a card may have, for documents: no card is asked."""

from __future__ import annotations

from perftui.run.journal import Column
from perftui.telemetry.gpu.devices import Device
from perftui.telemetry.gpu.field_values import FIELD_VALUES
from perftui.telemetry.gpu.fields import FIELDS, TRAFFIC
from perftui.telemetry.gpu.gpm import GPM_METRICS
from perftui.telemetry.gpu.metrics import METRICS
from perftui.telemetry.gpu.names import Gpu
from perftui.telemetry.gpu.processes import process_columns


def gpu_columns(prefix: str = "gpuN") -> tuple[Column, ...]:
    """The columns of an NVIDIA card that answers everything, in the order of ``METRICS``."""
    card = Device(Gpu(prefix, ""), None)
    columns = (
        *(field.column(card) for field in (*FIELDS, *TRAFFIC)),
        *(field.column(card) for field in FIELD_VALUES),
        *(metric.column(card) for metric in GPM_METRICS),
        *process_columns(card),
    )
    by_name = {column.name: column for column in columns}
    return tuple(by_name[f"{prefix}.{name}"] for name in METRICS)
