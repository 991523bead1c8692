"""`python -m tests.architecture.report`: the size and shape of the source tree, as a text that can be compared.

A module needs a reason if it is short or has a single importer; the reason is not recorded, so both lists are for
reading.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from statistics import median

from tests.architecture import trace
from tests.architecture.facts import PACKAGE, ROOT, Module, folders, importers, modules, spi_members, totals
from tests.architecture.limits import ENTRIES, SHORT_LINES

#: Names of the class that builds a container, the newest first.
_BUILDERS = ("ContainerBuilder", "Parts")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.architecture.report", description=__doc__)
    parser.add_argument("--names", action="store_true", help="name the short modules and those with one importer, too")
    names = parser.parse_args().names
    for text in (*report(modules(), names=names), *_traces(names=names)):
        print(text)  # noqa: T201  # a command


def report(found: list[Module], *, names: bool = False) -> Iterator[str]:
    """The lines of the report."""
    lines = [module.lines for module in found]
    yield f"modules {len(found):,}, lines {sum(lines):,}, median {median(lines):g}, longest {max(lines)}"
    yield from _packages(found)
    yield from (f"{name.replace('_', ' ')}: {figure:,}" for name, figure in totals(found).items())
    yield from (f"  {name} {members}" for name, members in spi_members(found).items())
    large = {folder: entries for folder, entries in folders().items() if entries > ENTRIES}
    yield f"folders with more than {ENTRIES} entries: {len(large)}"
    yield from (f"  {folder} {entries}" for folder, entries in large.items())
    single = [name for name, by in importers(found).items() if len(by) == 1]
    yield f"modules with one importer: {len(single)}"
    yield from (f"  {name}" for name in sorted(single) if names)
    short = [module for module in found if module.lines < SHORT_LINES and not module.is_face]
    yield f"modules below {SHORT_LINES} lines: {len(short)}"
    yield from (f"  {module.name} {module.lines}" for module in short if names)
    functions = [function for module in found for function in module.functions]
    longest = max(functions, key=lambda function: function.lines)
    widest = max(functions, key=lambda function: function.parameters)
    yield f"longest function: {longest.lines} lines, {longest}"
    yield f"most parameters: {widest.parameters}, {widest}"
    yield from _fan_out(found)


def _packages(found: list[Module]) -> Iterator[str]:
    """A line a package: its modules and lines."""
    sizes: dict[str, list[int]] = {}
    for module in found:
        parts = module.path.relative_to(ROOT / PACKAGE).parts
        sizes.setdefault(parts[0] if len(parts) > 1 else ".", []).append(module.lines)
    yield from (f"  {name:14} {len(lines):4} {sum(lines):7,}" for name, lines in sorted(sizes.items()))


def _fan_out(found: list[Module]) -> Iterator[str]:
    """How many of our modules the container's builder imports."""
    known = {module.name for module in found}
    for name in _BUILDERS:
        for module in found:
            if f"\nclass {name}" in module.text:
                yield f"fan-out of {name} ({module.name}): {len(module.imported & known)} modules"
                return


def _traces(*, names: bool) -> Iterator[str]:
    """The modules that a start, a message, a commit and a query touch. It starts a job and a service."""
    for step, touched in (*trace.at_start_and_by_messages(), *trace.by_a_query()):
        yield f"modules touched {step}: {len(touched)}"
        yield from (f"  {name}" for name in sorted(touched) if names)


if __name__ == "__main__":
    main()
