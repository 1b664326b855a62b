"""What is sampled of a GPU, whatever its vendor: columns ``gpuN.<name>``, each with a meaning."""

from __future__ import annotations

from dataclasses import dataclass

from perftui.run.journal import Column


@dataclass(frozen=True)
class Metric:
    """One metric of a GPU."""

    name: str
    unit: str
    label: str
    meaning: str

    def column(self, prefix: str, source: str, of: str = "") -> Column:
        """Its column for the GPU whose columns begin with ``prefix``; ``of`` ends the label."""
        label = f"{self.label}, {of}" if of else self.label
        return Column(f"{prefix}.{self.name}", self.unit, label, source, self.meaning)


METRICS = {
    each.name: each
    for each in (
        Metric(
            *("utilization", "%", "GPU busy"),
            "Share of time in which a kernel ran, however little of the GPU it used.",
        ),
        Metric(
            *("memory_utilization", "%", "GPU memory busy"),
            "Share of time in which GPU memory was read or written.",
        ),
        Metric(
            *("sm_activity", "%", "SMs active"),
            "Share of multiprocessors with at least one resident warp, averaged over time.",
        ),
        Metric(
            *("sm_occupancy", "%", "SM occupancy"),
            "Resident warps, as a share of what the multiprocessors can hold.",
        ),
        Metric(
            *("tensor_activity", "%", "tensor cores active"),
            "Share of time in which the tensor cores computed, averaged over multiprocessors.",
        ),
        Metric(
            *("dram_activity", "%", "memory bandwidth used"),
            "Memory bandwidth used, as a share of the GPU's peak.",
        ),
        Metric(
            *("memory_used", "B", "GPU memory used"),
            "GPU memory in use by all processes, and by the driver itself.",
        ),
        Metric("memory_total", "B", "GPU memory", "Memory of the GPU."),
        Metric(
            *("process_memory", "B", "GPU memory of this run"),
            "GPU memory held by the run's own processes.",
        ),
        Metric(
            *("processes", "count", "processes on the GPU"),
            "Processes that hold GPU memory, including the run's own.",
        ),
        Metric("power", "W", "power", "Power that the board draws."),
        Metric(
            *("power_limit", "W", "power limit"),
            "Power above which the driver lowers the clocks.",
        ),
        Metric(
            *("energy", "J", "energy"),
            "Energy that the board has used since the driver was loaded.",
        ),
        Metric("temperature", "C", "temperature", "Temperature of the GPU chip."),
        Metric("memory_temperature", "C", "memory temperature", "Temperature of the GPU's memory."),
        Metric("fan", "%", "fan", "Requested fan speed, as a share of the maximum."),
        Metric("clock_sm", "MHz", "SM clock", "Current clock of the multiprocessors."),
        Metric("clock_sm_max", "MHz", "highest SM clock", "Highest clock of the multiprocessors."),
        Metric("clock_memory", "MHz", "memory clock", "Current clock of the GPU's memory."),
        Metric(
            *("clock_memory_max", "MHz", "highest memory clock"),
            "Highest clock of the GPU's memory.",
        ),
        Metric(
            *("throttle_reasons", "", "clock limits in force"),
            "What limits the clocks now, one bit per reason.",
        ),
        Metric(
            *("ecc_corrected", "count", "memory errors corrected"),
            "Memory errors that ECC has corrected since the driver was loaded.",
        ),
        Metric(
            *("ecc_uncorrected", "count", "memory errors not corrected"),
            "Memory errors that ECC could not correct since the driver was loaded.",
        ),
        Metric(
            *("pcie_receive", "B/s", "PCIe to the GPU"),
            "Bytes a second that the GPU receives over PCIe.",
        ),
        Metric(
            *("pcie_transmit", "B/s", "PCIe from the GPU"),
            "Bytes a second that the GPU sends over PCIe.",
        ),
        Metric(
            *("nvlink_receive", "B/s", "NVLink to the GPU"),
            "Bytes a second that the GPU receives over all of its NVLinks.",
        ),
        Metric(
            *("nvlink_transmit", "B/s", "NVLink from the GPU"),
            "Bytes a second that the GPU sends over all of its NVLinks.",
        ),
        Metric(
            *("pcie_generation", "", "PCIe generation"),
            "Current PCIe generation of the link; it drops while the GPU idles.",
        ),
        Metric("pcie_width", "", "PCIe lanes", "PCIe lanes in use now."),
        Metric(
            *("pcie_generation_max", "", "highest PCIe generation"),
            "Highest PCIe generation that the GPU and the slot support.",
        ),
        Metric(
            "pcie_width_max",
            "",
            "most PCIe lanes",
            "Most PCIe lanes that the GPU and the slot support.",
        ),
    )
}
"""By name, in the order in which a person looks for them."""
