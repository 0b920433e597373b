"""Writes the public names of escnn or e3nn, one per line, as the tests expect them.

Run it with a Python that has the library: ``python tests/peers/list_names.py e3nn > tests/peers/e3nn.txt``. escnn needs
an environment of its own with numpy below 2, a Fortran compiler, and torch_geometric for its layers on point clouds.
"""

from __future__ import annotations

import inspect
import pkgutil
import sys
from importlib import import_module, metadata
from types import ModuleType

MODULES = {
    "escnn": ("nn", "nn.init", "gspaces", "group", "kernels"),
    "e3nn": ("o3", "nn", "math", "io", "util", "util.jit", "util.test"),
}
"""The modules that users import from. Of ``e3nn.nn.models``, whose modules have no face, all are walked as well."""


def public_names(library: str) -> list[str]:
    """``module.name`` for all names in ``__all__``, or, where there is none, all that the module defines."""
    modules = [*MODULES[library]]
    if library == "e3nn":
        models = import_module("e3nn.nn.models")
        modules += [m.name[len("e3nn.") :] for m in pkgutil.walk_packages(models.__path__, "e3nn.nn.models.")]
    names = set()
    for path in modules:
        try:
            module = import_module(f"{library}.{path}")
        except ImportError:  # needs an optional package, such as MinkowskiEngine
            continue
        names |= {f"{path}.{name}" for name in _offered(module) if not inspect.ismodule(getattr(module, name, module))}
    return sorted(names)


def _offered(module: ModuleType) -> list[str]:
    if hasattr(module, "__all__"):
        return [name for name in module.__all__ if not name.startswith("_")]
    own = (n for n, v in vars(module).items() if getattr(v, "__module__", None) == module.__name__)
    return [name for name in own if not name.startswith("_")]


if __name__ == "__main__":
    library = sys.argv[1]
    print(f"# {library} {metadata.version(library)}")
    print("\n".join(public_names(library)))
