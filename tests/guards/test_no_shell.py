"""No pickle is loaded, and no command goes through a shell."""

import ast

import pytest

from tests.guards.sources import imports, trees

LOADERS = ("pickle", "cPickle", "_pickle", "dill", "cloudpickle", "marshal", "shelve", "joblib")
WORDS = ("shell", "allow_pickle", "torch.load", "yaml.load", "system", "popen", "output(")
SHELLS = ("system", "popen", "getoutput", "getstatusoutput", "create_subprocess_shell")


@pytest.mark.slow
def test_no_pickle_is_loaded_and_no_shell_is_used() -> None:
    found = [
        (file, name)
        for file, tree in trees(*LOADERS)
        for name in imports(tree)
        if name in LOADERS and not _only_writes(tree, name)
    ]
    for file, tree in trees(*WORDS):
        calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
        found += [(file, why) for call in calls if (why := _danger(call))]
    assert found == []


def _only_writes(tree: ast.Module, module: str) -> bool:
    """Whether nothing of the module is used but what writes: the agent saves snapshots as torch
    does."""
    used = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == module
    }
    return used == {"dump"}


def _danger(call: ast.Call) -> str:
    """What a call may run; empty where it runs nothing."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    keywords = {one.arg: one.value for one in call.keywords}
    for option in ("shell", "allow_pickle"):
        value = keywords.get(option)
        if value is not None and not (isinstance(value, ast.Constant) and value.value is False):
            return option
    module = call.func.value if isinstance(call.func, ast.Attribute) else None
    if isinstance(module, ast.Name) and (module.id, name) in (("torch", "load"), ("yaml", "load")):
        return f"{module.id}.{name}"
    of_system = isinstance(module, ast.Name) and module.id in ("os", "subprocess", "asyncio")
    return name if of_system and name in SHELLS else ""


def test_what_runs_is_seen() -> None:
    for code in ("os.system('x')", "run(a, shell=True)", "np.load(a, allow_pickle=b)"):
        (call,) = (node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call))
        assert _danger(call), code
