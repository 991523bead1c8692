"""Facts about the source tree: modules, their imports, their functions, and the entries of each folder.

Everything is read from the files; only the keys are counted in the imported product.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from pathlib import Path

from samzapy.config.known_keys import ALL_KEYS

ROOT = Path(__file__).parents[2]
PACKAGE, TESTS = "samzapy", "tests"
#: Folders of what Python and Maven make of the sources.
_BUILT = {"__pycache__", "target"}
#: Functions that import what their first argument names.
_IMPORTERS = {"import_module", "library"}
#: The interfaces that plug-ins implement, and the most columns and positional parameters that need no exception.
SPI = frozenset(f"samzapy.api.{name}" for name in ("system", "engine", "serde", "checkpoint"))
COLUMNS, POSITIONAL = 120, 7
_NULL_OBJECT = re.compile(r"_?No[A-Z]\w+")


@dataclass(frozen=True)
class Function:
    """A function or method: where it starts, its lines without decorators, and its parameters without `self`."""

    name: str
    path: Path
    line: int
    lines: int
    parameters: int

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line} {self.name}"


@dataclass(frozen=True)
class Module:
    """A file of Python. `name` is dotted; a package has the name of its folder."""

    name: str
    path: Path
    text: str = field(repr=False)

    @property
    def lines(self) -> int:
        return len(self.text.splitlines())

    @property
    def is_face(self) -> bool:
        """Whether users start it or import its names: it needs no importer in the product."""
        return self.path.name in {"__init__.py", "__main__.py"}

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @cached_property
    def imported(self) -> frozenset[str]:
        """Dotted names that it imports anywhere, inside functions too; of `from a import b` both `a` and `a.b`."""
        found = set()
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
        return frozenset(found)

    @cached_property
    def libraries(self) -> frozenset[str]:
        """Top-level names of the third-party libraries that it imports, by a statement or by name at run time."""
        names = {name.partition(".")[0] for name in self.imported.union(self._named)}
        return frozenset(names - sys.stdlib_module_names - {PACKAGE})

    @property
    def _named(self) -> Iterator[str]:
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in _IMPORTERS:
                yield from (each.value for each in node.args[:1] if isinstance(each, ast.Constant))

    @cached_property
    def functions(self) -> list[Function]:
        nodes = [node for node in ast.walk(self.tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        return [_function(node, self.path) for node in nodes]


def modules(folder: Path = ROOT / PACKAGE) -> list[Module]:
    """Every module below `folder`, by name."""
    return sorted((_module(path) for path in folder.rglob("*.py")), key=lambda module: module.name)


def importers(of: list[Module]) -> dict[str, set[str]]:
    """The modules that import each module, by name; a package's `__init__` does not count as an importer of its
    parts."""
    names = {module.name for module in of}
    found: dict[str, set[str]] = defaultdict(set)
    for module in of:
        for name in module.imported & names:
            if not (module.path.name == "__init__.py" and name.startswith(f"{module.name}.")):
                found[name].add(module.name)
    return found


def folders(*roots: Path) -> dict[str, int]:
    """The entries of each folder below `roots` (the product and its tests): its files and subfolders, without
    `__init__.py` and what was built. What a removed package has left behind, a folder of compiled modules only, is no
    entry."""
    found = {}
    for folder in chain.from_iterable((root, *root.rglob("*")) for root in roots or (ROOT / PACKAGE, ROOT / TESTS)):
        if folder.is_dir() and not _BUILT.intersection(folder.relative_to(ROOT).parts):
            entries = [path for path in folder.iterdir() if path.name != "__init__.py" and _has_sources(path)]
            if entries:
                found[str(folder.relative_to(ROOT))] = len(entries)
    return dict(sorted(found.items()))


def in_folders(found: Iterable[Module], names: Iterable[str]) -> list[Module]:
    """The modules in these folders of the product; `.` has its own."""
    tops = frozenset(names)
    places = ((module, module.path.relative_to(ROOT / PACKAGE).parts) for module in found)
    return [module for module, parts in places if (parts[0] if len(parts) > 1 else ".") in tops]


def totals(found: list[Module]) -> dict[str, int]:
    """The figures of the whole tree that have a budget; `found` is the product."""
    tests = [path.read_text() for path in (ROOT / TESTS).rglob("*.py")]
    words = {page: len(page.read_text().split()) for page in (ROOT / "docs").rglob("*.md")}
    of_pipelines = words[ROOT / "docs/how-to/write/pipelines.md"]
    return {
        "lines": sum(module.lines for module in found),
        "modules": len(found),
        "keys": len(ALL_KEYS),
        "spi_members": sum(spi_members(found).values()),
        "test_lines": sum(len(text.splitlines()) for text in tests),
        "docs_words": sum(words.values()) - of_pipelines,
        "pipeline_docs_words": of_pipelines,
        "changelog_lines": len((ROOT / "CHANGELOG.md").read_text().splitlines()),
        "long_lines": sum(map(_long_lines, [*(module.text for module in found), *tests])),
        "long_constructors": len(long_constructors(found)),
        "null_object_types": len(null_object_types(found)),
    }


def spi_members(found: Iterable[Module]) -> dict[str, int]:
    """How many public members an implementer of each interface may define."""
    classes = [(module, node) for module in found if module.name in SPI for node in module.tree.body]
    return {
        f"{module.name}.{node.name}": sum(not name.startswith("_") for name in _members(node))
        for module, node in classes
        if isinstance(node, ast.ClassDef) and any(ast.unparse(base) == "ABC" for base in node.bases)
    }


def long_constructors(found: Iterable[Module]) -> list[str]:
    """The classes whose constructor takes more than `POSITIONAL` positional arguments: written, or made from their
    fields."""
    classes = [(module, node) for module in found for node in ast.walk(module.tree) if isinstance(node, ast.ClassDef)]
    return [f"{module.name}.{node.name}" for module, node in classes if _positional(node) > POSITIONAL]


def null_object_types(found: Iterable[Module]) -> list[str]:
    """Where a null object (`TaskTimers`) is the declared type of a parameter, a field or a result."""
    names = {
        node.name
        for module in found
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ClassDef) and _NULL_OBJECT.fullmatch(node.name)
    }
    places = []
    for module in found:
        for node in ast.walk(module.tree):
            declared = getattr(node, "annotation", None) or getattr(node, "returns", None)
            if declared is not None and names.intersection(_NULL_OBJECT.findall(ast.unparse(declared))):
                places.append(f"{module.path.relative_to(ROOT)}:{node.lineno}")
    return places


def _positional(node: ast.ClassDef) -> int:
    for each in node.body:
        if isinstance(each, ast.FunctionDef) and each.name == "__init__":
            return len(each.args.posonlyargs) + len(each.args.args) - 1
    decorators = [ast.unparse(each) for each in node.decorator_list]
    is_dataclass = any("dataclass" in text and "kw_only" not in text for text in decorators)
    if not (is_dataclass or any(ast.unparse(base) == "NamedTuple" for base in node.bases)):
        return 0
    kinds = [ast.unparse(each.annotation) for each in node.body if isinstance(each, ast.AnnAssign)]
    positional = kinds[: kinds.index("KW_ONLY")] if "KW_ONLY" in kinds else kinds
    return sum("ClassVar" not in kind for kind in positional)


def _members(node: ast.ClassDef) -> Iterator[str]:
    for each in node.body:
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
            yield each.name
        elif isinstance(each, ast.AnnAssign | ast.Assign):
            yield ast.unparse(each.target if isinstance(each, ast.AnnAssign) else each.targets[0])


def _long_lines(text: str) -> int:
    return sum(len(line) > COLUMNS for line in text.splitlines())


def _has_sources(path: Path) -> bool:
    if path.is_dir():
        return path.name not in _BUILT and any(map(_has_sources, path.iterdir()))
    return True


def _function(node: ast.FunctionDef | ast.AsyncFunctionDef, path: Path) -> Function:
    given = node.args
    names = [each.arg for each in [*given.posonlyargs, *given.args, *given.kwonlyargs]]
    parameters = len(names) - (names[:1] in (["self"], ["cls"]))
    lines = (node.end_lineno or node.lineno) - node.lineno + 1
    return Function(node.name, path, node.lineno, lines, parameters)


def _module(path: Path) -> Module:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return Module(".".join(parts[:-1] if parts[-1] == "__init__" else parts), path, path.read_text())
