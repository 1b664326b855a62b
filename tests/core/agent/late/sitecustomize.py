"""Puts off what an optimizer imports of torch's compiler until something is compiled.

The first optimizer of a process imports ``torch._dynamo`` to mark two methods as not to be
compiled: 1.7 s of the processor in each of a hundred short trainings. Whoever asks for anything
else of it gets all of it."""

import importlib
import sys
import types


class Late(types.ModuleType):
    """Has what optimizers call, and becomes the real module for anything else."""

    def __getattr__(self, name):
        if name.startswith("__") and name != "__path__":
            raise AttributeError(name)
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(importlib.import_module(self.__name__), name)

    @staticmethod
    def disable(fn, *_args, **_options):
        """The function itself: nothing has been compiled that could be kept from it."""
        return fn

    @staticmethod
    def graph_break():
        """Nothing: no graph is being made."""


sys.modules["torch._dynamo"] = Late("torch._dynamo")
