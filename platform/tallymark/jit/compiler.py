"""The calls of numba: all that is not typed is in this file.

numba's own cache is not used. It writes beside the source, or to a folder that is set for the whole
process (an application may use numba itself); it does not notice that a helper or a constant has
changed; and it runs a damaged file. So a dispatcher gets a cache object of ours, with the two
methods that it calls (numba.core.caching.Cache: ``load_overload``, ``save_overload``).
"""

from __future__ import annotations

import hashlib
import pickle
import platform
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from types import CodeType
from typing import TYPE_CHECKING, Any

from tallymark.jit.store import CodeStore

if TYPE_CHECKING:
    from tallymark.jit.kernel import Function, Kernel


class CompilingSwitchedOffError(RuntimeError):
    """numba is there, and the environment's ``NUMBA_DISABLE_JIT`` is, too."""


def load(kernel: Kernel, store: CodeStore) -> Mapping[str, Function] | None:
    """The compiled functions by their names; None unless the store has all of them. Raises
    ModuleNotFoundError without numba, and whatever numba does."""
    dispatchers: dict[str, Any] = {}
    for name, dispatcher, signature in _dispatchers(kernel, store):
        if not dispatcher._cache.has_code():
            return None
        try:
            dispatcher.compile(signature)
        except Exception:
            dispatcher._cache.discard()
            return None
        dispatcher.disable_compile()
        dispatchers[name] = dispatcher
    return dispatchers


def compile_into(kernel: Kernel, store: CodeStore) -> None:
    """Compile what the store does not have, and write it there. Raises OSError where it cannot be
    written."""
    extending: Any = import_module("numba.extending")
    for helper in kernel.helpers:
        extending.register_jitable(helper)
    for _, dispatcher, signature in _dispatchers(kernel, store):
        dispatcher.compile(signature)


def _dispatchers(kernel: Kernel, store: CodeStore) -> Iterator[tuple[str, Any, Any]]:
    """(name, dispatcher, signature) of each function: nothing is compiled."""
    numba: Any = import_module("numba")
    if numba.config.DISABLE_JIT:
        raise CompilingSwitchedOffError("NUMBA_DISABLE_JIT is set")
    sources = _sources(kernel)
    for function, types in kernel.functions.items():
        # Without the interpreter's lock; indices are compared with the ends by the code itself.
        dispatcher = numba.njit(nogil=True, boundscheck=False)(function)
        signature = numba.core.sigutils.normalize_signature(types)
        signature = numba.core.typing.signature(signature[1], *signature[0])
        machine = dispatcher.targetctx.codegen().magic_tuple()
        versions = (numba.__version__, import_module("llvmlite").__version__, platform.machine())
        key = hashlib.sha256(repr((sources, str(signature), machine, versions)).encode())
        tag = sys.implementation.cache_tag
        name = f"{function.__name__}-{tag}-{key.hexdigest()[:32]}"
        dispatcher._cache = _Cache(store, name)
        yield function.__name__, dispatcher, signature


def _sources(kernel: Kernel) -> list[object]:
    """What the functions are made of: their code, and the numbers that they know by name."""
    made_of: list[object] = []
    for function in (*kernel.helpers, *kernel.functions):
        code: CodeType = function.__code__
        known = function.__globals__
        numbers = [(name, known[name]) for name in code.co_names if type(known.get(name)) is int]
        made_of.append((function.__name__, code.co_code, code.co_names, _constants(code), numbers))
    return made_of


def _constants(code: CodeType) -> list[object]:
    """Those of a code and of what is nested in it, whose own representation names an address."""
    return [
        (each.co_code, each.co_names, _constants(each)) if isinstance(each, CodeType) else each
        for each in code.co_consts
    ]


class _Cache:
    """What a dispatcher asks for its compiled code, and gives it to."""

    def __init__(self, store: CodeStore, name: str) -> None:
        self._store = store
        self._name = name
        self._code: bytes | None = None

    @property
    def cache_path(self) -> str:
        return str(self._store.folder)

    def has_code(self) -> bool:
        """Whether there is whole code; it is kept until it is asked for."""
        self._code = self._store.read(self._name)
        return self._code is not None

    def discard(self) -> None:
        """It was not what it seemed."""
        self._store.discard(self._name)

    def load_overload(self, signature: Any, target: Any) -> Any:
        """The compile result, None where there is none."""
        if self._code is None and not self.has_code():
            return None
        code, self._code = self._code, None
        target.refresh()
        result: Any = import_module("numba.core.compiler").CompileResult
        return result._rebuild(target, *pickle.loads(code or b""))

    def save_overload(self, signature: Any, result: Any) -> None:
        """Write it to the store. Raises OSError."""
        dumps: Any = import_module("numba.core.serialize").dumps
        self._store.write(self._name, dumps(result._reduce()))
