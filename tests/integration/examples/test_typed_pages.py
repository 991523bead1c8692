"""The commands of the README, the tutorials and the how-to pages, typed as they stand.

From a wheel, in a new environment, without a checkout."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from terminal import Terminal, Typed, typed, variables

from docs.generator.markdown import fences
from samzapy.devkafka.broker import BROKER_PORT, free_port, is_free

pytestmark = [pytest.mark.slow, pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(1200)]

PROJECT = Path(__file__).parents[3]
TUTORIALS = [f"docs/tutorial/{name}.md" for name in ("first-job", "state", "crashes", "kafka", "cluster")]
HOW_TO = ("gallery", "operate/replay", "operate/running", "write/dataframes", "write/schemas")
PAGES = ["README.md", *(f"docs/how-to/{name}.md" for name in HOW_TO)]
#: They need another cluster, or files of another machine: tests/yarn, and test_production_check_on_kafka.py.
NOT_TYPED = {f"docs/how-to/operate/{name}.md" for name in ("kubernetes", "production", "yarn")}
TYPED_BEFORE = {"docs/how-to/operate/replay.md": [Path(__file__).with_name("failed_totals.md")]}
COMMAND = re.compile(r"(\$|samzapy|pip|python|spark-submit|kubectl) ")
SPARK_PORT = 7077


@pytest.fixture(scope="module")
def ports() -> dict[str, str]:
    """What is typed in place of the usual ports, where something else listens on them."""
    free = {f":{port}": f":{port if is_free(port) else free_port()}" for port in (BROKER_PORT, SPARK_PORT)}
    broker, spark = free[f":{BROKER_PORT}"][1:], free[f":{SPARK_PORT}"][1:]
    return {**free, "kafka start": f"kafka start --port {broker}", "spark start": f"spark start --port {spark}"}


def with_ports(step: Typed, ports: dict[str, str]) -> Typed:
    for usual, other in ports.items():
        step = Typed(step.command.replace(usual, other), [line.replace(usual, other) for line in step.expected])
    return step


@pytest.fixture(scope="module")
def wheels(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("wheels")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(PROJECT)]
    subprocess.run(command, check=True, timeout=300)
    return folder


@pytest.fixture(scope="module")
def home(wheels, tmp_path_factory) -> Path:
    """A folder with the environment that the first page makes."""
    folder = tmp_path_factory.mktemp("home")
    terminal = Terminal(folder, variables(wheels, Path(sys.base_prefix, "bin")))
    try:
        for step in list(typed(PROJECT / TUTORIALS[0]))[:2]:
            terminal.type(step)
    finally:
        terminal.close()
    return folder


def opened(folder: Path, home: Path, wheels: Path) -> Terminal:
    terminal = Terminal(folder, variables(wheels, Path(sys.base_prefix, "bin")))
    terminal.type(Typed(f"source {home}/env/bin/activate", []))
    return terminal


def test_the_tutorials_can_be_typed_one_after_the_other(home, wheels, ports):
    terminal = opened(home, home, wheels)
    try:
        steps = [step for page in TUTORIALS for step in typed(PROJECT / page)]
        for step in steps[2:]:
            terminal.type(with_ports(step, ports))
    finally:
        for command in ("samzapy spark stop", "samzapy kafka stop"):
            terminal.type(Typed(command, []))
        terminal.close()


@pytest.mark.parametrize("page", PAGES)
def test_a_page_can_be_typed(page, home, wheels, ports, tmp_path):
    terminal = opened(tmp_path, home, wheels)
    try:
        steps = [step for part in (*TYPED_BEFORE.get(page, ()), PROJECT / page) for step in typed(part)]
        assert steps
        for step in steps:
            terminal.type(with_ports(step, ports))
    finally:
        terminal.close()


def test_no_page_with_commands_is_left_out():
    pages = {"README.md", *(str(page.relative_to(PROJECT)) for page in (PROJECT / "docs").rglob("*.md"))}
    texts = {page: fences((PROJECT / page).read_text(encoding="utf-8")) for page in pages}
    lines = {page: [line for info, text, _ in texts[page] if not info for line in text.splitlines()] for page in pages}
    found = {page for page in pages if any(map(COMMAND.match, lines[page]))}
    assert found - NOT_TYPED == {*TUTORIALS, *PAGES}
