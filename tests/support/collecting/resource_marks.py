"""Which tests open sockets and databases: the markers ``socket`` and ``database`` are set from what
a test uses, never by hand.

At collection, the code of each test and of its fixtures is followed through the helpers of tests/
and of ``tallymark.testing``. A test that reaches one of the names below is marked. A run without
the marked tests (``make unit``, ``make fast``) also listens: a test that opens a socket or a
database there fails, and its text says what to add here.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Final

import click
import pytest

# Classes and functions of the packages, of uvicorn and of http that bind or connect.
OPENERS: Final = frozenset(
    {
        "ApacheKafkaServer",
        "Broker",
        "ControlServer",
        "DashboardServer",
        "Cluster",
        "HTTPServer",
        "MetricsPage",
        "RegistryServer",
        "Server",
        "Supervisor",
        "ThreadingHTTPServer",
        "WebServer",
        "ask",
        "free_ports",
        "is_taken",
        "listen",
        "memory_registry",
        "running_stacks",
        "serve",
        "serve_metrics",
        "tallymark.cli.stack.doctor.command",
        "tallymark_schema_registry.cli.command",
        "tallymark_spark_jobs.cli.load.load",
        "tallymark_spark_jobs.load.landing.attempt",
        "with_free_ports",
    }
)
# Methods of asyncio and of the module socket that bind or connect.
METHODS: Final = frozenset(
    {
        "create_connection",
        "create_server",
        "create_unix_server",
        "open_connection",
        "open_unix_connection",
        "start_server",
        "start_unix_server",
    }
)
OF_THE_MODULE_SOCKET: Final = frozenset({"bind", "connect", "create_connection", "create_server"})
# Classes and functions of the packages and of SQLAlchemy that open databases.
OF_DATABASES: Final = frozenset({"PostgresServer", "create_engine", "open_engine", "open_store"})
# Texts in tests, and parameters of them, that choose what opens one: tables of Iceberg have a
# catalogue in SQLite.
DATABASE_WORDS: Final = frozenset({"iceberg"})
# What urllib3 binds once, when it is first imported, to learn whether there is IPv6.
_ASKS_FOR_IPV6: Final = ("::1", 0)
_TESTS: Final = Path(__file__).parents[2]
_PACKAGES: Final = ("http", "socketserver", "sqlalchemy", "uvicorn")
# Code of the packages and of bench/ that starts whole stacks is followed as helpers of tests are.
_FOLLOWED: Final = (
    "support.paper",
    "tallymark.testing",
    "tallymark_audit.proof",
    "tallymark_audit.testing",
)


def mark_what_tests_open(items: list[pytest.Item]) -> None:
    """Set the markers on each test whose code reaches a socket or a database."""
    for item in items:
        used = list(_used_by(item))
        if any(reaches_a_socket(each) for each in used):
            item.add_marker(pytest.mark.socket)
        if any(each in DATABASE_WORDS for each in used if isinstance(each, str)) or any(
            reaches_a_database(each) for each in used
        ):
            item.add_marker(pytest.mark.database)


def _used_by(item: pytest.Item) -> Iterator[object]:
    yield getattr(item, "function", None)
    call = getattr(item, "callspec", None)
    yield from () if call is None else call.params.values()
    fixtures = getattr(item, "_fixtureinfo", None)
    for definitions in () if fixtures is None else fixtures.name2fixturedefs.values():
        yield from (each.func for each in definitions)


def reaches_a_socket(used: object) -> bool:
    """Whether the code of a function or class, or a helper that it names, opens a socket."""
    return _reaches(_inner(used), OPENERS, _opens_a_socket_by_hand)


def reaches_a_database(used: object) -> bool:
    """Whether the code of a function or class, or a helper that it names, opens a database."""
    return _reaches(_inner(used), OF_DATABASES, _opens_a_database_by_hand)


def _reaches(
    used: object, openers: frozenset[str], by_hand: Callable[[FunctionType, set[str]], bool]
) -> bool:
    if not isinstance(used, FunctionType | type):
        return False
    return _code_reaches(used, openers, by_hand)


# Fixtures and helpers are followed once, and not for each of the thousands of tests that use them.
@functools.cache
def _code_reaches(
    used: FunctionType | type,
    openers: frozenset[str],
    by_hand: Callable[[FunctionType, set[str]], bool],
) -> bool:
    seen: set[FunctionType | type] = set()
    waiting = [used]
    while waiting:
        each = waiting.pop()
        if each in seen:
            continue
        seen.add(each)
        if _is_opener(each, openers):
            return True
        if _is_helper(each):
            for function, names, named in _followed(each):
                if by_hand(function, names):
                    return True
                waiting += named
    return False


@functools.cache
def _followed(
    used: FunctionType | type,
) -> tuple[tuple[FunctionType, set[str], tuple[FunctionType | type, ...]], ...]:
    """The functions of a helper, each with the names in its code and the code that these mean."""
    found: list[tuple[FunctionType, set[str], tuple[FunctionType | type, ...]]] = []
    for function in _functions(used):
        names = set(_names(function.__code__))
        inner = (_inner(each) for each in _named(function, names))
        code = tuple(each for each in inner if isinstance(each, FunctionType | type))
        found.append((function, names, code))
    return tuple(found)


def _inner(used: object) -> object:
    """The function itself: no ``partial``, no bound object, no decorator around it."""
    while True:
        if isinstance(used, functools.partial):
            used = used.func
        elif isinstance(used, MethodType):
            used = used.__func__
        elif isinstance(used, click.Command):
            used = used.callback
        elif isinstance(used, FunctionType) and hasattr(used, "hypothesis"):
            used = used.hypothesis.inner_test  # what @given runs
        else:
            below = None if isinstance(used, type) else getattr(used, "__wrapped__", None)
            if below is None:
                return used
            used = below


def _is_opener(used: FunctionType | type, openers: frozenset[str]) -> bool:
    for each in used.__mro__ if isinstance(used, type) else (used,):
        package = each.__module__.partition(".")[0]
        if package.startswith("tallymark") or package in _PACKAGES:
            names = {each.__name__, f"{each.__module__}.{each.__name__}"}
            if names & openers:
                return True
    return False


@functools.cache
def _is_helper(used: FunctionType | type) -> bool:
    """Code of tests/, or that is followed like it; other code has its names in the table."""
    if used.__module__.startswith(_FOLLOWED):
        return True
    module = sys.modules.get(used.__module__)
    code = getattr(used, "__code__", None)
    file = getattr(module, "__file__", None) or (code and code.co_filename) or ""
    return Path(file).is_relative_to(_TESTS)


def _functions(used: FunctionType | type) -> Iterator[FunctionType]:
    if isinstance(used, FunctionType):
        yield used
        return
    for base in used.__mro__:
        if base is object or not _is_helper(base):
            continue
        for value in vars(base).values():
            for each in (value, getattr(value, "__func__", None), getattr(value, "fget", None)):
                inner = _inner(each)
                if isinstance(inner, FunctionType):
                    yield inner


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    yield from code.co_freevars
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from _names(const)


def _texts(code: CodeType) -> Iterator[str]:
    for const in code.co_consts:
        if isinstance(const, str):
            yield const
        elif isinstance(const, CodeType):
            yield from _texts(const)


def _opens_a_socket_by_hand(function: FunctionType, names: set[str]) -> bool:
    if names & METHODS:
        return True
    return bool(names & OF_THE_MODULE_SOCKET) and _names_module(function, names, "socket")


def _opens_a_database_by_hand(function: FunctionType, names: set[str]) -> bool:
    if "connect" in names and _names_module(function, names, "sqlite3"):
        return True
    return any(text in DATABASE_WORDS for text in _texts(function.__code__))


def _names_module(function: FunctionType, names: set[str], module: str) -> bool:
    return module in names and isinstance(function.__globals__.get(module), ModuleType)


def _named(function: FunctionType, names: set[str]) -> Iterator[object]:
    """What the names in a function's code stand for: globals, what it encloses, modules' names."""
    enclosed = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    for cell in dict(enclosed).values():
        with contextlib.suppress(ValueError):  # a cell that was never filled
            yield cell.cell_contents
    for name in names:
        value = function.__globals__.get(name, sys.modules.get(name))
        if isinstance(value, ModuleType):
            yield from (vars(value)[each] for each in names if each in vars(value))
        elif value is not None:
            yield value


class OpeningGuard:
    """Fails each test that opens a socket or a database, in a run that leaves out the tests marked
    so. ``left_out``: the names of these markers."""

    _EVENTS: Final = {
        "socket.bind": ("socket", "OPENERS"),
        "socket.connect": ("socket", "OPENERS"),
        "sqlite3.connect": ("database", "OF_DATABASES"),
    }

    def __init__(self, left_out: Collection[str]) -> None:
        self._left_out = left_out
        self._opened: list[tuple[str, str, str]] = []
        sys.addaudithook(self._listen)

    def _listen(self, event: str, args: tuple[Any, ...]) -> None:
        found = self._EVENTS.get(event)
        if found is not None and found[0] in self._left_out and args[-1] != _ASKS_FOR_IPV6:
            self._opened.append((*found, f"{event} {args[-1]}"))

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_teardown(self) -> None:
        opened, self._opened[:] = tuple(self._opened), ()
        for what, names, call in opened:
            pytest.fail(
                f"This test opens a {what} ({call}), and nothing that it names is known to: add "
                f"the class or function that does to {names} in "
                "tests/support/collecting/resource_marks.py.",
                pytrace=False,
            )
