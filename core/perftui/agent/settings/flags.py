"""Switches of torch as they are set, None where it does not tell: its versions differ."""

from __future__ import annotations

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


def modes(torch: Any) -> dict[str, Any]:
    """What holds for all operators: deterministic ones only, anomalies looked for, gradients."""
    return {
        "deterministic": attempt(torch.are_deterministic_algorithms_enabled),
        "deterministic_warns_only": attempt(torch.is_deterministic_algorithms_warn_only_enabled),
        "anomaly": attempt(torch.is_anomaly_enabled),
        "grad": attempt(torch.is_grad_enabled),
    }


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
