"""A terminal in an empty folder, and the commands of a page with what the page says that they print."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import psutil

from docs.generator.markdown import fences
from samzapy.verify.processes import until

_END = "--ended-with-"
#: What differs from run to run: durations and rates, times, process ids, ports of pages, sizes.
_VARIES = [
    (re.compile(r"in [\d.,]+ ?s( \([\d,]+ msg/s\))?"), "in N s"),
    (re.compile(r'"timestamp":\d+'), '"timestamp":N'),
    (re.compile(r"\(process \d+\)"), "(process N)"),
    (re.compile(r"\d+ commits?"), "N commits"),
    (re.compile(r"of \d{4}-\d\d-\d\dT\S+"), "of T"),
]
#: Their answers come in time: asked again until they are those of the page.
_WAITS = re.compile(r"samzapy status ")
_LONGEST_WAIT_S = 180


class Typed(NamedTuple):
    """A line of a page behind `$ `, and the lines below it; or a `file` that the page has."""

    command: str
    expected: list[str]


def typed(page: Path) -> Iterator[Typed]:
    """The commands of a page, in order. A block with a title becomes that file."""
    for info, text, _ in fences(page.read_text(encoding="utf-8")):
        title = re.search(r'title="([^"]+)"', info)
        if title:
            yield Typed(f"cat > {title[1]} <<'END-OF-FILE'\n{text}\nEND-OF-FILE", [])
        elif not info:
            yield from _commands(text.splitlines())


def _commands(lines: list[str]) -> Iterator[Typed]:
    command, expected = "", []
    for line in lines:
        if line.startswith("$ "):
            if command:
                yield Typed(command, expected)
            command, expected = line[2:], []
        elif command.endswith(("|", "\\")) and not expected:
            command += f"\n{line}"
        elif not line.strip() and command:
            yield Typed(command, expected)
            command = ""
        elif command:
            expected.append(line)
    if command:
        yield Typed(command, expected)


class Terminal:
    """A bash of its own, in `folder`, with only these variables."""

    def __init__(self, folder: Path, variables: Mapping[str, str]) -> None:
        self._shell = subprocess.Popen(
            ["bash", "--norc", "--noprofile"],
            cwd=folder,
            env=dict(variables),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def type(self, step: Typed) -> None:
        """Run a command, and print its seconds. Raises NoProgress if it fails, or lacks lines of the page."""
        answer, began = "", time.monotonic()

        def is_as_the_page_says() -> bool:
            nonlocal answer
            code, output = self._run(step.command)
            missing = _missing(step.expected, output)
            answer = f"$ {step.command}\n{output}\nexit code {code}; of the page it lacks: {missing}"
            return not missing and (code == 0 or bool(step.expected))

        until(is_as_the_page_says, lambda: answer, _LONGEST_WAIT_S if _WAITS.match(step.command) else 0)
        sys.stdout.write(f"{time.monotonic() - began:6.1f} s  {step.command.splitlines()[0]}\n")

    def _run(self, command: str) -> tuple[int, str]:
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        self._shell.stdin.write(f"{command}\necho; echo {_END}$?\n")
        self._shell.stdin.flush()
        lines: list[str] = []
        for line in self._shell.stdout:
            if line.startswith(_END):
                return int(line.removeprefix(_END)), "".join(lines)
            lines.append(line)
        raise AssertionError("".join(lines))

    def close(self) -> None:
        """End the shell, and what it has left running in its folder."""
        for each in psutil.Process(self._shell.pid).children(recursive=True):
            each.kill()
        self._shell.kill()
        self._shell.wait()


def _masked(line: str) -> str:
    for pattern, mark in _VARIES:
        line = pattern.sub(mark, line)
    return " ".join(line.split())


def _missing(expected: list[str], output: str) -> list[str]:
    """The page's lines that the output lacks, in this order; a line of an ellipsis stands for any number of lines."""
    printed = iter([_masked(line) for line in output.splitlines()])
    wanted = [line for line in expected if line.strip() != "..."]
    return [line for line in wanted if not any(_masked(line) in each for each in printed)]


def variables(wheels: Path, python: Path) -> dict[str, str]:
    """Of a user who has Python and Java, and finds this tree's wheel in the package index."""
    kept = {key: os.environ[key] for key in ("HOME", "JAVA_HOME", "LANG", "SAMZAPY_CACHE") if key in os.environ}
    return {**kept, "PATH": f"{python}:/usr/local/bin:/usr/bin:/bin", "PIP_FIND_LINKS": str(wheels), "PIP_QUIET": "1"}
