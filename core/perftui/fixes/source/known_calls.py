"""Calls that change nothing which a training step reads, by their names."""

from __future__ import annotations

import re

PURE = frozenset(
    {
        # of Python
        *("print", "len", "str", "int", "float", "bool", "round", "abs", "sum", "min", "max"),
        *("sorted", "zip", "enumerate", "range", "reversed", "map", "filter", "any", "all", "repr"),
        *("list", "tuple", "dict", "set", "isinstance", "hasattr", "getattr", "type", "id", "open"),
        *("format", "bytes", "divmod", "pow", "vars", "chr", "ord", "callable", "slice", "hash"),
        *("join", "split", "rsplit", "strip", "rstrip", "lstrip", "replace", "startswith", "lower"),
        *("upper", "endswith", "rjust", "ljust", "center", "zfill", "encode", "decode", "title"),
        *("items", "keys", "values", "get", "copy", "deepcopy", "index", "count", "partition"),
        *("strftime", "isoformat", "now", "today", "time", "perf_counter", "total_seconds"),
        *("exists", "mkdir", "makedirs", "basename", "dirname", "is_file", "with_suffix", "fileno"),
        *(
            "unlink",
            "glob",
            "rename",
            "iterdir",
            "touch",
            "stat",
            "resolve",
            "write_text",
            "rmtree",
        ),
        *("close", "flush", "fsync", "getvalue", "tell", "elapsed", "namedtuple", "Path"),
        # of tensors and arrays
        *("item", "tolist", "numpy", "detach", "cpu", "clone", "contiguous", "data_ptr", "numel"),
        *("size", "dim", "ndimension", "mean", "std", "var", "norm", "sum", "prod", "argmax"),
        *("argmin", "argsort", "topk", "sort", "median", "quantile", "histc", "unique", "eq", "ne"),
        *("ge", "le", "gt", "lt", "view", "view_as", "reshape", "flatten", "squeeze", "unsqueeze"),
        *("permute", "transpose", "t", "expand", "repeat", "long", "double", "half", "byte"),
        *("add", "sub", "mul", "div", "clamp", "clip", "exp", "log", "log2", "log10", "sqrt"),
        *("softmax", "log_softmax", "sigmoid", "tanh", "isnan", "isinf", "isfinite", "nonzero"),
        *("array", "asarray", "stack", "cat", "concatenate", "from_numpy", "make_grid", "astype"),
        *("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved"),
        *("mem_get_info", "memory_stats", "synchronize", "elapsed_time", "no_grad", "tobytes"),
        *("inference_mode", "isclose", "allclose", "equal", "element_size", "pin_memory"),
        # of models, optimizers and trackers
        *("state_dict", "parameters", "named_parameters", "named_modules", "modules", "children"),
        *("named_buffers", "buffers", "get_last_lr", "get_lr", "get_scale", "unwrap_model"),
        *("get_rank", "get_world_size", "is_initialized", "is_available", "is_main_process"),
        *("barrier", "wait_for_everyone", "current_device", "device_count", "as_dict", "to_dict"),
        *("add_scalar", "add_scalars", "add_image", "add_images", "add_text", "add_histogram"),
        *("add_figure", "add_graph", "add_video", "add_embedding", "set_postfix", "set_title"),
        *("set_postfix_str", "set_description", "set_description_str", "set_xlabel", "set_ylabel"),
        *("imshow", "subplot", "subplots", "legend", "xlabel", "ylabel", "axis", "hist", "scatter"),
        *("collect", "key_averages", "table", "Image", "fromarray", "Histogram", "Table", "Figure"),
    }
)
"""Functions and methods that read, or write outside of the training."""

PURE_MODULES = (
    *("time", "datetime", "os.path", "json", "math", "logging", "pickle", "sys", "csv", "pathlib"),
    *("matplotlib", "pylab", "PIL", "wandb", "tqdm", "statistics", "string", "textwrap", "hashlib"),
    *("struct", "base64", "zlib", "gzip", "pprint", "re", "io", "copy", "itertools", "operator"),
    *("seaborn", "plotly", "pandas", "sklearn.metrics", "imageio", "skimage", "torchvision.utils"),
    *("tabulate", "mlflow", "yaml", "numpy", "scipy", "cv2", "shutil", "torch", "functools"),
    *("collections", "os", "platform", "resource", "psutil", "humanize", "prettytable"),
)
"""Modules whose functions do, with the exceptions of ``CHANGING``."""

CHANGING = re.compile(
    r"^(numpy|torch|scipy\.stats)\.random\b|^torch\.(distributed|optim|nn|autograd|multiprocessing"
    r"|utils\.(data|checkpoint)|compile|set_|use_|manual_seed|seed|load|cuda\.(set_|manual_seed"
    r"|seed|amp|graph|empty_cache|reset_)|backends|hub|jit|func|fx)"
    r"|^os\.(chdir|kill|exit|_exit|environ\.|putenv|setpriority|nice|fork)|^sys\.exit"
    r"|^torch\.\w+_$|^functools\.partial"
)
"""Functions of these modules after which a training may go on otherwise."""

HARMLESS_EXCEPTIONS = re.compile(
    r"^torch\.distributed\.(get_rank|get_world_size|is_initialized|is_available|barrier)$"
    r"|^torch\.nn\.functional\.(?!.*dropout)\w*[a-z]$"
)
"""Those of them that change nothing."""

_OBSERVES = frozenset(
    {
        *(
            "print",
            "log",
            "logs",
            "logger",
            "logging",
            "save",
            "saves",
            "write",
            "writes",
            "writer",
        ),
        *("dump", "plot", "plots", "draw", "show", "report", "display", "summary", "summarize"),
        *("checkpoint", "visualize", "visualise", "vis", "savefig", "imsave", "snapshot", "export"),
        *("debug", "info", "warning", "warn", "error", "progress", "tensorboard", "wandb"),
    }
)
_TRAINS = frozenset(
    {
        *("update", "train", "step", "load", "restore", "reset", "set", "optimize", "adjust"),
        *("sample", "replay", "ema", "sync", "schedule", "lr", "init", "resume", "backward"),
    }
)
_ONLOOKER = re.compile(r"(^|[._])(vis|viz|visdom|writer|logger|pbar|tb|wandb|bar|experiment)$")
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def observes(name: str) -> bool:
    """Whether ``name`` says that it logs, prints, draws or saves, and nothing more."""
    said = words(name)
    return bool(said & _OBSERVES) and not said & _TRAINS


def looks_on(receiver: str, name: str) -> bool:
    """Whether ``receiver`` is named as what draws, logs or shows progress, and ``name`` as nothing
    that changes it."""
    return _ONLOOKER.search(receiver) is not None and not words(name) & _TRAINS


def words(name: str) -> set[str]:
    """The words of a name, in lower case."""
    return {word.lower() for word in _WORD.findall(name)}


def is_pure(name: str, qualified: str) -> bool:
    """Whether a call of ``name``, by imports ``qualified``, changes nothing of a training."""
    if qualified and CHANGING.match(qualified):
        return HARMLESS_EXCEPTIONS.match(qualified) is not None
    if name in PURE or observes(name):
        return True
    return any(qualified == one or qualified.startswith(f"{one}.") for one in PURE_MODULES)
