"""The rules of the house that no linter knows; a part of ``make check``.

==========  =====================================================================================
folder      holds at most 20 .py files, of tests, too
circle      no circle of imports between files, nor between the rooms of a folder
room        says in the docstring of its ``__init__.py`` what is in it: three lines or sentences
long        a file has at most 350 lines
short       a file below 40 lines that only one file imports is a part of that file
name        a public class has a name of its own in its room (messages and their parts excepted)
==========  =====================================================================================

Exceptions are in house_rules.toml, by name and with the reason. An exception that is not needed any
more fails, too. Only imports at the top of a module count: what a function imports, or what is
below ``if TYPE_CHECKING``, makes no circle.
"""

from __future__ import annotations

import ast
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
SOURCES: Final = ("platform", "audit", "schema_registry", "spark_jobs", "dashboards")
FILES_IN_A_FOLDER: Final = 20
LINES: Final = 350
SHORT: Final = 40
LINES_ABOUT_A_ROOM: Final = 3

Graph = Mapping[str, frozenset[str]]


@dataclass(frozen=True, slots=True)
class Module:
    """One file: ``imports`` are all that it imports, ``at_the_top`` those that run with it."""

    path: str
    is_package: bool
    lines: int
    about: str
    imports: frozenset[str] = field(repr=False)
    at_the_top: frozenset[str] = field(repr=False)
    import_lines: int
    classes: tuple[str, ...]


def main() -> int:
    """Print what breaks a rule without an exception, and each exception that nothing needs."""
    modules = read_modules()
    exceptions = tomllib.loads((ROOT / "deploy/house_rules.toml").read_text(encoding="utf-8"))
    problems = 0
    for rule, check in RULES.items():
        known = exceptions.get(rule, {})
        found = dict(check(modules))
        for name, problem in sorted(found.items()):
            if name not in known:
                print(f"{rule}: {name}: {problem}")
                problems += 1
        for name in sorted(set(known) - set(found)):
            print(f"{rule}: {name} needs no exception any more: take it out of house_rules.toml")
            problems += 1
    lines = sum(module.lines for module in modules.values())
    share = 100 * sum(module.import_lines for module in modules.values()) / lines
    excepted = sum(len(each) for each in exceptions.values())
    print(
        f"House rules: {problems} problems, {excepted} exceptions; "
        f"{len(modules)} files, {lines} lines, {share:.1f} % of them imports"
    )
    return int(problems > 0)


def read_modules() -> dict[str, Module]:
    """Every module of the packages, by its dotted name."""
    files = {
        name: file
        for source in SOURCES
        for file in (ROOT / source).rglob("*.py")
        if (name := _dotted(file.relative_to(ROOT / source)))
    }
    return {name: _read(name, file, set(files)) for name, file in sorted(files.items())}


def _dotted(file: Path) -> str:
    parts = file.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _read(name: str, file: Path, known: set[str]) -> Module:
    text = file.read_text(encoding="utf-8")
    tree = ast.parse(text)
    imports = list(_imports(tree))
    return Module(
        path=str(file.relative_to(ROOT)),
        is_package=file.name == "__init__.py",
        lines=len(text.splitlines()),
        about=ast.get_docstring(tree) or "",
        imports=frozenset(_targets(imports, known)) - {name},
        at_the_top=frozenset(_targets(_run_at_import(tree), known)) - {name},
        import_lines=sum((each.end_lineno or each.lineno) - each.lineno + 1 for each in imports),
        classes=tuple(each.name for each in tree.body if isinstance(each, ast.ClassDef)),
    )


def _imports(tree: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node


def _run_at_import(tree: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from _run_at_import(node)


def _targets(imports: Iterator[ast.Import | ast.ImportFrom], known: set[str]) -> Iterator[str]:
    for node in imports:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif node.module in known or any(f"{node.module}.{a.name}" in known for a in node.names):
            for alias in node.names:
                below = f"{node.module}.{alias.name}"
                yield below if below in known else str(node.module)


def _full_folders(modules: Mapping[str, Module]) -> Iterator[tuple[str, str]]:
    paths = [Path(module.path) for module in modules.values()]
    paths += [file.relative_to(ROOT) for room in ("tests", "bench") for file in _files(room)]
    folders = Counter(str(path.parent) for path in paths)
    for folder, count in folders.items():
        if count > FILES_IN_A_FOLDER:
            yield folder, f"{count} files: which of them make a room of their own?"


def _files(room: str) -> Iterator[Path]:
    return (ROOT / room).rglob("*.py")


def _circles(modules: Mapping[str, Module]) -> Iterator[tuple[str, str]]:
    files = {name: module.at_the_top for name, module in modules.items()}
    for circle in _knots(files):
        yield _named(circle), "these files import each other"
    for folder, rooms in _rooms(modules).items():
        for circle in _knots(rooms):
            if any(name not in modules or modules[name].is_package for name in circle):
                yield _named(circle), f"these rooms of {folder} import each other"


def _rooms(modules: Mapping[str, Module]) -> dict[str, dict[str, frozenset[str]]]:
    """For each folder, which of its files and rooms imports which other."""
    found: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for name, module in modules.items():
        for target in module.at_the_top:
            mine, other = name.split("."), target.split(".")
            same = 0
            while same < min(len(mine), len(other)) and mine[same] == other[same]:
                same += 1
            if 0 < same < min(len(mine), len(other)):
                room, neighbour = ".".join(mine[: same + 1]), ".".join(other[: same + 1])
                found[".".join(mine[:same])][room].add(neighbour)
    return {
        folder: {room: frozenset(others) for room, others in rooms.items()}
        for folder, rooms in found.items()
    }


def _knots(graph: Graph) -> list[list[str]]:
    """The strongly connected components of two nodes and more (Tarjan's algorithm)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    path: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        path.append(node)
        for other in sorted(graph.get(node, ())):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in path:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            knot = path[path.index(node) :]
            del path[path.index(node) :]
            if len(knot) > 1:
                found.append(sorted(knot))

    for node in sorted(graph):
        if node not in index:
            visit(node)
    return found


def _named(circle: list[str]) -> str:
    return " <-> ".join(circle)


def _silent_rooms(modules: Mapping[str, Module]) -> Iterator[tuple[str, str]]:
    for module in modules.values():
        lines = [line for line in module.about.splitlines() if line.strip()]
        sentences = module.about.count(". ") + module.about.count(".\n") + 1
        if module.is_package and max(len(lines), sentences) < LINES_ABOUT_A_ROOM:
            yield (
                module.path,
                "says too little: what is in this room, and in what order to read it?",
            )


def _long_files(modules: Mapping[str, Module]) -> Iterator[tuple[str, str]]:
    for module in modules.values():
        if module.lines > LINES:
            yield module.path, f"{module.lines} lines, {LINES} are allowed"


def _short_files(modules: Mapping[str, Module]) -> Iterator[tuple[str, str]]:
    importers: dict[str, list[str]] = defaultdict(list)
    for module in modules.values():
        for target in module.imports:
            importers[target].append(module.path)
    for name, module in modules.items():
        if module.lines < SHORT and not module.is_package and len(importers[name]) == 1:
            yield module.path, f"{module.lines} lines, and only {importers[name][0]} imports it"


def _shared_names(modules: Mapping[str, Module]) -> Iterator[tuple[str, str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for name, module in modules.items():
        if not name.startswith("tallymark.protocol.messages"):
            room = ".".join(name.split(".")[:2])
            for each in module.classes:
                if not each.startswith("_"):
                    found[f"{room}.{each}"].append(module.path)
    for name, files in found.items():
        if len(files) > 1:
            yield name, f"is defined in {', '.join(files)}"


RULES: Final = {
    "folder": _full_folders,
    "circle": _circles,
    "room": _silent_rooms,
    "long": _long_files,
    "short": _short_files,
    "name": _shared_names,
}

if __name__ == "__main__":
    sys.exit(main())
