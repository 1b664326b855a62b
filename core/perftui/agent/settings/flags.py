"""Switches of torch as they are set, None where it does not know them: its versions differ."""

from __future__ import annotations

import sys
from typing import Any

from ..safety.signal_handlers import attempt

DEVICES = ("cuda", "cpu", "xpu", "mps")
"""Kinds of devices whose autocast is asked about."""


def threads(torch: Any) -> dict[str, Any]:
    """Threads within one operator, and operators at a time."""
    return {
        "intra_op": int(torch.get_num_threads()),
        "inter_op": int(torch.get_num_interop_threads()),
    }


def matmul(torch: Any) -> dict[str, Any]:
    """Precision of products of float32 matrices, and where TensorFloat-32 may be used.

    Where torch has a precision for each backend, the older getters are not asked: they raise where
    a script uses both ways, and some versions let them warn.
    """
    newer = getattr(torch._C, "_get_fp32_precision_getter", None)
    if newer is None:
        return {
            "float32_precision": attempt(torch._C._get_float32_matmul_precision),
            "allow_tf32": attempt(torch._C._get_cublas_allow_tf32),
            "cudnn_allow_tf32": attempt(torch._C._get_cudnn_allow_tf32),
        }
    product = attempt(newer, "cuda", "matmul")
    convolution = attempt(newer, "cuda", "conv")
    on_cpu = attempt(newer, "mkldnn", "matmul")
    tf32 = "medium" if on_cpu == "bf16" else "high"
    precision = tf32 if product == "tf32" else "highest"
    return {
        "float32_precision": precision if product is not None else None,
        "allow_tf32": product == "tf32" if product is not None else None,
        "cudnn_allow_tf32": convolution == "tf32" if convolution is not None else None,
    }


def cudnn(torch: Any) -> dict[str, Any]:
    """Whether cuDNN is used, tries out algorithms, and only takes deterministic ones."""
    c = torch._C
    return {
        "enabled": attempt(c._get_cudnn_enabled),
        "benchmark": attempt(c._get_cudnn_benchmark),
        "deterministic": attempt(c._get_cudnn_deterministic),
    }


def mkldnn(torch: Any) -> dict[str, Any]:
    """Whether oneDNN, which computes on the CPU, is in this torch and is used."""
    c = torch._C
    return {
        "available": attempt(lambda: bool(c._has_mkldnn)),
        "enabled": attempt(lambda: c._get_mkldnn_enabled()),
    }


def attention(torch: Any) -> dict[str, Any]:
    """Which kernels scaled_dot_product_attention may choose from."""
    c = torch._C
    return {
        "flash": attempt(lambda: c._get_flash_sdp_enabled()),
        "memory_efficient": attempt(lambda: c._get_mem_efficient_sdp_enabled()),
        "math": attempt(lambda: c._get_math_sdp_enabled()),
        "cudnn": attempt(lambda: c._get_cudnn_sdp_enabled()),
    }


def build(torch: Any) -> dict[str, Any]:
    """What this torch was built for: versions of CUDA and ROCm, architectures of GPUs."""
    return {
        "torch": str(torch.__version__),
        "cuda": attempt(lambda: torch.version.cuda),
        "hip": attempt(lambda: torch.version.hip),
        # The public function asks first whether there is a GPU, which may start CUDA.
        "architectures": attempt(lambda: torch._C._cuda_getArchFlags().split()),
    }


def devices(torch: Any) -> dict[str, Any] | None:
    """GPUs that the process sees, their UUIDs, the one that it uses now and its architecture; None
    before it uses any, since asking would start CUDA."""
    if not torch.cuda.is_initialized():
        return None
    major, minor = torch.cuda.get_device_capability()
    return {
        "visible": int(torch.cuda.device_count()),
        "current": int(torch.cuda.current_device()),
        "architecture": f"sm_{major}{minor}",
        "uuids": attempt(_uuids, torch),
    }


def _uuids(torch: Any) -> list[str]:
    """UUIDs of the GPUs that the process sees; torch keeps these properties once it has started."""
    cuda = torch.cuda
    return [str(cuda.get_device_properties(n).uuid) for n in range(cuda.device_count())]


def dynamo() -> dict[str, Any] | None:
    """How often ``torch.compile`` compiles a function anew; None where it is not loaded."""
    config = sys.modules.get("torch._dynamo.config")
    if config is None:
        return None
    return {
        "recompile_limit": attempt(lambda: int(config.recompile_limit)),
        "suppress_errors": attempt(lambda: bool(config.suppress_errors)),
    }


def modes(torch: Any) -> dict[str, Any]:
    """What holds for all operators: deterministic ones only, anomalies looked for, gradients, and
    the data type of new tensors."""
    return {
        "deterministic": attempt(torch.are_deterministic_algorithms_enabled),
        "deterministic_warns_only": attempt(torch.is_deterministic_algorithms_warn_only_enabled),
        "anomaly": attempt(torch.is_anomaly_enabled),
        "grad": attempt(torch.is_grad_enabled),
        "default_dtype": attempt(lambda: str(torch.get_default_dtype()).removeprefix("torch.")),
    }


def detects_anomalies(torch: Any) -> bool:
    """Whether anomalies are looked for here."""
    return bool(attempt(lambda: torch.is_anomaly_enabled()))


def autocast(torch: Any) -> dict[str, str] | None:
    """The data type that operators are cast to here, by kind of device; None where none are.

    A model that casts within its own ``forward`` is not seen from outside.
    """
    found = {
        device: str(torch.get_autocast_dtype(device)).removeprefix("torch.")
        for device in DEVICES
        if attempt(torch.is_autocast_enabled, device)
    }
    return found or None
