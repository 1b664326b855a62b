"""How the training is set up: observed in its first steps, and noted as ``settings``, once more
where an optimizer is made later.

Reading must change nothing: no CUDA is initialised, nothing is imported, no object kept alive.
Settings that a version of torch does not have are None.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dis import get_instructions
from pathlib import Path
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any, Optional

from ..hooks.call_site import CallSite, hidden_directories
from ..safety.signal_handlers import attempt
from ..windows.torch_window import is_profiling
from .model import (
    MOST_OPTIMIZERS,
    all_modules,
    is_compiled,
    optimizer_settings,
    parameters,
    untrained,
    wrappers,
)

Sites = Mapping[Any, Optional[CallSite]]
"""Modules or optimizers, each with the line that calls or makes it."""

SETTINGS_AFTER = 2
"""Training steps after which the settings are noted: anything compiled or made late exists by then,
and later steps may end on the fast path, which notifies nobody of them."""


class Setup:
    """The training's setup as observed, until it is noted."""

    def __init__(self) -> None:
        self.until = SETTINGS_AFTER
        """Training steps until the settings are noted; 0 once they are."""
        self.left: dict[int, int] | None = None
        """Gradients that were there when an optimizer had been made after the note, as after
        pretraining; None without one."""
        self._autocast: dict[str, str] | None = None
        """The autocast around the last of the first forward passes."""
        self._anomaly = False
        """Whether anomaly detection was on in the first forward and backward passes."""

    def in_forward(self, torch: Any) -> None:
        """The model is called in training."""
        self._autocast = autocast(torch)
        self.in_backward(torch)

    def in_backward(self, torch: Any) -> None:
        """The autograd engine is called."""
        self._anomaly = self._anomaly or bool(attempt(lambda: torch.is_anomaly_enabled()))

    def has_trained(self, torch: Any) -> bool:
        """A training step has ended; whether to write the note now: not while a profiler runs,
        which would record that as work of the script."""
        self.until -= 1
        if not self.until and is_profiling(torch):
            self.until = 1
        return not self.until

    @property
    def is_late(self) -> bool:
        """Whether the note is overdue because a profiler was running."""
        return 0 < self.until < SETTINGS_AFTER

    def note(self, torch: Any, optimizers: Sites, roots: Sites) -> dict[str, Any]:
        """The data of the ``settings`` note; None stands for values that could not be read.

        ``roots`` are the modules that the script calls itself.
        """
        readers = _readers(torch, optimizers, roots, self.left or {})
        note = {name: attempt(reader) for name, reader in readers.items()}
        if self._anomaly and note["modes"]:
            note["modes"]["anomaly"] = True
        return {**note, "autocast": self._autocast}


def _readers(
    torch: Any, optimizers: Sites, roots: Sites, left: Mapping[int, int]
) -> dict[str, Callable[[], Any]]:
    """What reads each setting."""
    called: Any = attempt(all_modules, roots)
    return {
        "threads": lambda: {
            "intra_op": int(torch.get_num_threads()),
            "inter_op": int(torch.get_num_interop_threads()),
            "python": len(threading._active),  # type: ignore[attr-defined]
        },
        # CPUs available to the training thread, and CPUs of the machine.
        "cores": lambda: {"affinity": len(os.sched_getaffinity(0)), "installed": os.cpu_count()},
        "processor": processor,
        "environment": lambda: {
            name: value[:LONGEST]
            for name, value in sorted(os.environ.items())
            if name in VARIABLES or name.startswith(PREFIX)
        },
        "matmul": lambda: matmul(torch),
        "cudnn": lambda: switches(torch, "cudnn"),
        "mkldnn": lambda: {
            "available": attempt(lambda: bool(torch._C._has_mkldnn)),
            **switches(torch, "mkldnn"),
        },
        "attention": lambda: switches(torch, "attention"),
        # What this torch was built for: versions of CUDA and ROCm, architectures of GPUs.
        "build": lambda: {
            "torch": str(torch.__version__),
            "cuda": attempt(lambda: torch.version.cuda),
            "hip": attempt(lambda: torch.version.hip),
            # The public function first checks for a GPU, which may start CUDA.
            "architectures": attempt(lambda: torch._C._cuda_getArchFlags().split()),
        },
        "devices": lambda: devices(torch),
        "dynamo": dynamo,
        "modes": lambda: modes(torch),
        # Python's collector: whether it runs by itself, its thresholds, its frozen objects.
        "gc": lambda: {
            "enabled": gc.isenabled(),
            "thresholds": list(gc.get_threshold()),
            "frozen": gc.get_freeze_count(),
        },
        "optimizers": lambda: [
            optimizer_settings(*item) for item in list(optimizers.items())[:MOST_OPTIMIZERS]
        ],
        "wrappers": lambda: wrappers(called),
        "parameters": lambda: parameters(torch, called, list(optimizers), left),
        "untrained": lambda: untrained(torch, roots, list(optimizers), left),
        "compiled": lambda: is_compiled(called),
        "places": lambda: call_places(VARIABLES),
    }


SHORT_NUMBERS = {b"avx512_bf16", b"amx_bf16", b"bf16", b"avx512_fp16", b"amx_fp16", b"asimdhp"}
"""Features of processors of Intel, AMD and ARM that compute with numbers of 16 bits."""


def processor() -> list[str] | None:
    """Which of ``SHORT_NUMBERS`` the processor has; None where the kernel does not list them."""
    # The first of hundreds of cores is enough: all of them took 20 ms.
    with Path("/proc/cpuinfo").open("rb", buffering=0) as file:
        lines = file.read(8192).splitlines()
    fields = (line.partition(b":") for line in lines)
    words = [value.split() for name, _, value in fields if name.strip() in (b"flags", b"Features")]
    return sorted(word.decode() for word in SHORT_NUMBERS.intersection(words[0])) if words else None


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


GETTERS = {
    # cuDNN: whether it is used, tries out algorithms, and takes only deterministic ones.
    "cudnn": {
        "enabled": "_get_cudnn_enabled",
        "benchmark": "_get_cudnn_benchmark",
        "deterministic": "_get_cudnn_deterministic",
    },
    # Whether oneDNN, which computes on the CPU, is used.
    "mkldnn": {"enabled": "_get_mkldnn_enabled"},
    # Kernels that scaled_dot_product_attention may choose from.
    "attention": {
        "flash": "_get_flash_sdp_enabled",
        "memory_efficient": "_get_mem_efficient_sdp_enabled",
        "math": "_get_math_sdp_enabled",
        "cudnn": "_get_cudnn_sdp_enabled",
    },
}
"""Functions of ``torch._C`` that read a switch."""


def switches(torch: Any, group: str) -> dict[str, Any]:
    """The switches of one group of ``GETTERS``."""
    c = torch._C
    return {
        name: attempt(lambda getter: getattr(c, getter)(), getter)
        for name, getter in GETTERS[group].items()
    }


def devices(torch: Any) -> dict[str, Any] | None:
    """GPUs that the process sees, their UUIDs, the one that it uses now and its architecture; None
    before it uses any, since asking would start CUDA."""
    cuda = torch.cuda
    if not cuda.is_initialized():
        return None
    major, minor = cuda.get_device_capability()
    return {
        "visible": int(cuda.device_count()),
        "current": int(cuda.current_device()),
        "architecture": f"sm_{major}{minor}",
        # torch keeps these properties once it has started.
        "uuids": attempt(
            lambda: [str(cuda.get_device_properties(n).uuid) for n in range(cuda.device_count())]
        ),
    }


def dynamo() -> dict[str, Any] | None:
    """How often ``torch.compile`` may compile a function anew; None if it is not loaded."""
    config = sys.modules.get("torch._dynamo.config")
    if config is None:
        return None
    return {
        "recompile_limit": attempt(lambda: int(config.recompile_limit)),
        "suppress_errors": attempt(lambda: bool(config.suppress_errors)),
    }


def modes(torch: Any) -> dict[str, Any]:
    """Modes of all operators: deterministic only, anomaly detection, gradients, and the data type
    of new tensors."""
    return {
        "deterministic": attempt(torch.are_deterministic_algorithms_enabled),
        "deterministic_warns_only": attempt(torch.is_deterministic_algorithms_warn_only_enabled),
        "anomaly": attempt(torch.is_anomaly_enabled),
        "grad": attempt(torch.is_grad_enabled),
        "default_dtype": attempt(lambda: str(torch.get_default_dtype()).removeprefix("torch.")),
    }


DEVICES = ("cuda", "cpu", "xpu", "mps")
"""Kinds of devices whose autocast is read."""


def autocast(torch: Any) -> dict[str, str] | None:
    """Data type of autocast here, by kind of device; None where autocast is off.

    A model that casts within its own ``forward`` is not seen from outside.
    """
    types = {
        device: str(torch.get_autocast_dtype(device)).removeprefix("torch.")
        for device in DEVICES
        if attempt(torch.is_autocast_enabled, device)
    }
    return types or None


CALLS = frozenset(
    (
        *("set_num_threads", "set_num_interop_threads", "sched_setaffinity", "cpu_affinity"),
        *("set_default_dtype", "set_float32_matmul_precision", "set_flush_denormal"),
        *("use_deterministic_algorithms", "set_detect_anomaly", "detect_anomaly", "emit_nvtx"),
        *("settrace", "settrace_all_threads", "set_trace", "setprofile", "setprofile_all_threads"),
        *("set_events", "set_local_events", "set_debug", "autocast"),
    )
)
"""Functions of torch, Python and psutil."""

SWITCHES = frozenset(
    (
        *("mkldnn.enabled", "cudnn.enabled", "cudnn.benchmark", "cudnn.deterministic"),
        *("cudnn.allow_tf32", "matmul.allow_tf32"),
    )
)
"""Attributes that are assigned to, with the preceding name."""

_FLAGS = {"flags": "enabled", "set_flags": "enabled"}
"""Functions that set several switches, and the switch they stand for here."""

_SET = frozenset({*_FLAGS, *(switch.partition(".")[2] for switch in SWITCHES)})
"""Names in functions that set a switch."""

_READERS = "get", "getenv"
"""Functions that only read a variable of the environment."""

MOST_CODE = 4000
"""Most functions to look at."""

Places = dict[str, list[Any]]


def call_places(variables: frozenset[str]) -> Places:
    """First file and line of each of ``CALLS``, ``SWITCHES`` and environment ``variables``,
    searched from the script on.

    Nothing is hooked: the byte code that is loaded already is read, once.
    """
    sought = CALLS | variables
    names = sought | _SET
    places: Places = {}
    for number, code in enumerate(nested(_user_code())):
        if number >= MOST_CODE:
            break
        if not names.isdisjoint(code.co_names) or _has(code, sought):
            for name, line in _uses(code, sought):
                places.setdefault(name, [os.path.realpath(code.co_filename), line])
    return places


def _user_code() -> Iterator[CodeType]:
    """Code of the functions on the stack, outermost first, and in modules."""
    hidden = (*hidden_directories(), str(Path(os.__file__).parent) + os.sep, "<")
    installed = f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}"

    def is_own(file: Any) -> bool:
        is_text = isinstance(file, str) and not file.startswith(hidden)
        return is_text and not any(part in file for part in installed)

    stack = []
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        stack.append(frame.f_code)
        frame = frame.f_back
    yield from (code for code in reversed(stack) if is_own(code.co_filename))
    for module in list(sys.modules.values()):
        if not issubclass(type(module), ModuleType):
            continue
        # This access does not load lazily loaded modules.
        names: dict[str, Any] = object.__getattribute__(module, "__dict__")
        if not is_own(names.get("__file__")):
            continue
        for value in list(names.values()):
            if type(value) is FunctionType:
                yield value.__code__
            elif type(value) is type and value.__module__ == names.get("__name__"):
                methods = list(vars(value).values())
                yield from (method.__code__ for method in methods if type(method) is FunctionType)


def nested(codes: Iterable[CodeType]) -> Iterator[CodeType]:
    """``codes`` and the functions defined in them, without repeats."""
    ids: set[int] = set()
    for code in codes:
        waiting = [code]
        while waiting:
            outer = waiting.pop()
            if id(outer) not in ids:
                ids.add(id(outer))
                yield outer
                waiting += [inner for inner in outer.co_consts if type(inner) is CodeType]


def _has(code: CodeType, sought: frozenset[str]) -> bool:
    """Whether a constant of ``code`` is a text of ``sought``, or a tuple with one."""
    groups = (each if type(each) is tuple else (each,) for each in code.co_consts)
    return any(type(value) is str and value in sought for group in groups for value in group)


def _uses(code: CodeType, sought: frozenset[str]) -> Iterator[tuple[str, int]]:
    lines = iter(code.co_lines())
    end, line = 0, None
    before = None
    for instruction in get_instructions(code):
        while instruction.offset >= end:
            _, end, line = next(lines)
        value = instruction.argval
        if instruction.opname == "KW_NAMES" and instruction.arg is not None:
            # Python 3.11 gives only the index of the constant.
            value = code.co_consts[instruction.arg]
        if instruction.opname == "STORE_ATTR" or value in _FLAGS:
            switch = f"{before}.{_FLAGS.get(value, value)}"
            if switch in SWITCHES and line:
                yield switch, line
        elif type(value) is str and value in sought and line and before not in _READERS:
            yield value, line
        elif type(value) is tuple and line:
            # Names of arguments: ``os.environ.update(OMP_NUM_THREADS="1")``.
            yield from ((text, line) for text in value if type(text) is str and text in sought)
        before = value


VARIABLES = frozenset(
    (
        *("OMP_NUM_THREADS", "OMP_PROC_BIND", "OMP_PLACES", "OMP_WAIT_POLICY", "MKL_NUM_THREADS"),
        *("GOMP_CPU_AFFINITY", "KMP_AFFINITY", "KMP_BLOCKTIME"),
        *("ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA"),
        *("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "CUDA_LAUNCH_BLOCKING"),
        *("CUDA_MODULE_LOADING", "CUBLAS_WORKSPACE_CONFIG", "TORCH_CUDA_SANITIZER"),
        *("NVIDIA_TF32_OVERRIDE", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE"),
        *("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "PYTORCH_NO_CUDA_MEMORY_CACHING"),
        *("NCCL_DEBUG", "NCCL_P2P_DISABLE", "NCCL_IB_DISABLE", "TORCH_DISTRIBUTED_DEBUG"),
        *("TORCH_LOGS", "TORCH_SHOW_CPP_STACKTRACES"),
        "PYTHONMALLOC",
    )
)
"""Variables of the environment that are noted: a fixed list, as others may hold secrets."""

PREFIX = "TORCHDYNAMO_"
"""Prefix of further variables that are noted."""

LONGEST = 200
"""Most characters of a value."""
