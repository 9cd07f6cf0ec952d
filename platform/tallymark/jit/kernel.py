"""Functions that are compiled once for a machine, in the background.

A kernel is a few functions in the part of Python that numba compiles. Whatever happens, its callers
have an uncompiled path, and take it until :meth:`Kernel.ready`::

    COLD ── warm() ──> WARMING ──────── all functions are in the cache ───────> READY
                          │                     ▲
                          ├── not in the cache ─┴─ a child process compiles them
                          └── switched off, no numba, any error ──────────────> OFF, one log line

A child compiles, for three reasons: the compiler takes seconds with the interpreter's lock held,
about 100 MB more than the loaded code, and on a platform that it does not know it may crash.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tallymark.jit.store import CodeStore, UnusableStoreError, default_store

SWITCH: Final = "TALLYMARK_JIT"
"""The environment's variable: ``0`` or ``off`` and nothing is compiled, nor is numba imported."""
EXTRA: Final = "fast"
COMPILE_SECONDS: Final = 300.0
"""A child that takes longer is ended."""
NOT_WRITTEN: Final = 3
"""Exit code of a child that compiled, and could not write it down."""
_OFF: Final = frozenset({"0", "off", "no", "false"})
_MOST_REASON: Final = 300

_logger = logging.getLogger(__name__)

Function = Callable[..., Any]


class NotReadyError(RuntimeError):
    """A compiled function was called before :meth:`Kernel.ready`."""


class Kernel:
    """``functions`` and the types of their arguments and result, as numba writes them; ``helpers``
    are functions that these call, each below those that it calls itself. ``name`` is the place of
    the kernel, ``module:NAME``, and ``what`` for log lines what is slower without it.

    All methods may be called from any thread.
    """

    def __init__(
        self,
        name: str,
        what: str,
        functions: Mapping[Function, str],
        helpers: Sequence[Function] = (),
    ) -> None:
        self.name = name
        self.what = what
        self.functions = functions
        self.helpers = helpers
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._done = threading.Event()
        self._compiled: Mapping[str, Function] | None = None

    def ready(self) -> bool:
        """Whether the compiled functions can be called; false for good where there are none."""
        return self._compiled is not None

    def __getitem__(self, name: str) -> Function:
        """The compiled function of that name. Raises NotReadyError, and KeyError."""
        if self._compiled is None:
            raise NotReadyError(f"{self.name} is not compiled")
        return self._compiled[name]

    def warm(self) -> None:
        """Begin to load or compile, in a thread that ends with the process; returns at once. The
        calls after the first do nothing."""
        with self._lock:
            # A fork has no thread of its parent.
            if self._thread is None or not (self._thread.is_alive() or self._done.is_set()):
                self._thread = threading.Thread(
                    target=self._warm, name="tallymark-jit", daemon=True
                )
                self._thread.start()

    def wait(self, timeout: float | None = None) -> bool:
        """Until ``warm`` has ended, ``timeout`` seconds at most: whether it is ready."""
        self._done.wait(timeout)
        return self.ready()

    def _warm(self) -> None:
        try:
            if os.environ.get(SWITCH, "").strip().lower() in _OFF:
                self._without(logging.INFO, f"{SWITCH} switches that off")
            else:
                self._compiled = self._loaded()
        except ModuleNotFoundError as error:
            lacks = f"numba is not installed (pip install 'tallymark[{EXTRA}]')"
            known = error.name == "numba"
            self._without(*((logging.INFO, lacks) if known else (logging.WARNING, str(error))))
        except Exception as error:  # numba and LLVM raise what they like
            self._without(logging.WARNING, f"{type(error).__name__}: {error}")
        finally:
            self._done.set()

    def _without(self, level: int, reason: str) -> None:
        text = " ".join(reason.split())[:_MOST_REASON]
        _logger.log(level, "no compiled code for %s, which is slower: %s", self.what, text)

    def _loaded(self) -> Mapping[str, Function]:
        store = default_store()
        found = self._from(store) if store is not None else None
        if found is None:
            with tempfile.TemporaryDirectory(prefix="tallymark-jit-") as alone:
                found = self._from(CodeStore(Path(alone)))
        if found is None:
            raise UnusableStoreError("there is no folder to write compiled code to")
        return found

    def _from(self, store: CodeStore) -> Mapping[str, Function] | None:
        """What the store has, or is written to it now; None where it cannot be written."""
        from tallymark.jit.compiler import load

        found = load(self, store)
        if found is None and self._compile(store):
            found = load(self, store)
            if found is None:
                raise UnusableStoreError(f"what was compiled into {store.folder} cannot be loaded")
        return found

    def _compile(self, store: CodeStore) -> bool:
        """In a child. False: it could not write to the store."""
        command = [sys.executable, "-P", "-m", "tallymark.jit", self.name, str(store.folder)]
        paths = os.pathsep.join(path for path in sys.path if path)
        done = subprocess.run(
            command,
            env=os.environ | {"PYTHONPATH": paths},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=COMPILE_SECONDS,
            check=False,
        )
        if done.returncode not in (0, NOT_WRITTEN):
            lines = done.stderr.decode(errors="replace").strip().splitlines() or ["it said nothing"]
            raise RuntimeError(f"the compiler ended with {done.returncode}: {lines[-1]}")
        return done.returncode == 0
