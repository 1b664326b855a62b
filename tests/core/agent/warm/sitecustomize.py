"""Stops an interpreter as it starts, with torch imported, and forks one for each training.

Importing torch takes 1.5 s of the processor in each of 150 short trainings; a fork takes none.
Python imports a module of this name before it opens the script, so a child that returns from here
is an interpreter like any other, about to run its script with nothing of ours on the stack. It
imports torch as usual, and has it at once."""

import gc
import json
import os
import socket
import sys
import traceback
from importlib.machinery import ModuleSpec
from pathlib import Path


class WarmFinder:
    """Hides that torch has been imported until it is, and then hands it over."""

    def __init__(self):
        names = [name for name in sys.modules if name.partition(".")[0] == "torch"]
        self.modules = {name: sys.modules.pop(name) for name in names}
        self.spec = self.modules["torch"].__spec__

    def find_spec(self, name, _path=None, _target=None):
        return ModuleSpec(name, self, is_package=True) if name == "torch" else None

    def create_module(self, _spec):
        return self.modules["torch"]

    def exec_module(self, torch):
        torch.__spec__ = self.spec
        sys.meta_path.remove(self)
        for name, module in self.modules.items():
            sys.modules.setdefault(name, module)
        # Where nothing is seeded, each process draws numbers of its own.
        torch.default_generator.seed()


def serve(client):
    """Fork for each training that is asked for, and say its process and its exit code.

    Returns what is asked for and its stdout and stderr, in the child; ends where nobody asks.
    """
    while True:
        _, files, *_ = socket.recv_fds(client, 1, 2)
        if not files:
            os._exit(0)
        with client.makefile() as lines:
            asked = json.loads(lines.readline())
        child = os.fork()
        if child == 0:
            return asked, files
        for file in files:
            os.close(file)
        client.sendall(b"%d\n" % child)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        client.sendall(b"%d\n" % code)


def become(asked, files):
    """Make this process what an interpreter would be that is started so."""
    streams = (os.open(os.devnull, os.O_RDONLY), *files)
    for number, file in enumerate(streams):
        os.dup2(file, number)
        os.close(file)
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["env"])
    sys.argv += asked["args"]
    sys.orig_argv += asked["args"]
    own = sys.path.index(str(Path(__file__).parent))
    sys.path[own : own + 1] = asked["env"]["PYTHONPATH"].split(os.pathsep)
    sys.meta_path.insert(0, WarmFinder())
    del sys.modules[__name__]


try:
    import torch  # noqa: F401 - for the children

    # Children that end would look through all of its objects, again and again: 0.3 s each.
    gc.freeze()
    _client = socket.socket(fileno=0)
    _asked = serve(_client)
    _client.detach()
    become(*_asked)
except BaseException:  # noqa: BLE001 - Python would go on to the script
    traceback.print_exc()
    os._exit(1)
import sitecustomize  # noqa: E402, F401 - the one that the training is to start with
