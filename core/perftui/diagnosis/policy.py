"""All thresholds of the diagnosis, in one place."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Policy:
    """Limits that the rules apply. Shares are of the mean steady step, 0 to 1."""

    warning_steps: int = 2
    """Fewest steady steps for a warning: one step alone may be anything. A trace that
    marks but one is judged whole, at low confidence, and gives no more than a warning."""
    critical_steps: int = 20
    """Fewest steady steps for a critical finding and for high confidence. A trace that holds fewer
    is judged whole, at lower confidence."""

    input_warning: float = 0.10
    """Waiting for data. TraceML warns at 10 %, xprof at 5 %."""
    input_critical: float = 0.20
    """TraceML and xprof both call 20 % input-bound."""
    main_thread_warning: float = 0.05
    """Fetching in the main thread (``num_workers=0``) is certain to be avoidable, so less of it is
    worth a warning; the TensorBoard plugin speaks of the data loader from 5 %."""
    workers_idle: float = 0.5
    """Share of their time below which workers are idle enough for more of them to be of no use.
    Measured: 0.78 with workers that held up the training, 0.44 with workers that kept up."""

    loader_start_warning: float = 0.05
    """Starting a loader anew, epoch after epoch: as certain to be avoidable."""
    loader_start_critical: float = 0.20
    """As for input: a fifth of the step."""

    sync_warning: float = 0.05
    """Device idle after the host waited for it. TraceLens speaks of exposed time from 5 %."""
    sync_critical: float = 0.20
    """As for input: a fifth of the step."""

    launch_warning: float = 0.10
    """Device idle because kernels come too slowly."""
    launch_critical: float = 0.20
    """As for input: a fifth of the step."""
    launch_kernels: int = 100
    """Fewest kernels a step; nsys-ai."""
    launch_kernel_ns: int = 10_000
    """Median kernel below this: a launch takes 5 to 10 µs of host time, so shorter kernels end
    before the next one is there. nsys-ai and TraceLens use 10 µs."""
    launch_empty_queue: float = 0.5
    """Share of launches that find nothing queued or running on the device: most of them."""

    memory_warning: float = 0.90
    """Peak memory of a device over what it has. The TensorBoard plugin and TraceML: 90 %."""
    memory_critical: float = 0.97
    """Below this there is room for one more allocation of the usual size."""

    healthy_busy: float = 0.90
    """Device busy over the steps: what is left to win by removing idle time is below 1.11x."""
    healthy_compute: float = 0.50
    """Without a GPU: forward, backward and optimizer together are most of the step. Below this
    the time is in the script's own code, which these rules do not judge."""
