"""The code on the pages works as it stands there.

1. A block with a title (`title="money.py"`) becomes that file, in a folder that the blocks of a page share.
2. Files with the name `test_*.py` are run by pytest. `windows_page.py` beside this module has tests of the files of
   `windows.md` that the page does not show.
3. Blocks of Python without a title are one script, in their order.
4. A block behind `<!-- fragment -->` is a part of something that is not shown: it is only compiled.
5. A block behind `<!-- excerpt -->` stands in a file of the examples, or of the project `hello` of `samzapy init`, word
   by word.
"""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from docs.generator.markdown import fences

PROJECT = Path(__file__).parents[3]
PAGES = [PROJECT / "README.md", PROJECT / "CONTRIBUTING.md", *sorted((PROJECT / "docs").rglob("*.md"))]
FRAGMENT, EXCERPT = "<!-- fragment -->", "<!-- excerpt -->"
_TITLE = re.compile(r'title="([^"]+)"')


class Block(NamedTuple):
    """A block of code: its language, the file that it is (empty if none), and the last line before it, which may be a
    mark."""

    language: str
    file: str
    mark: str
    text: str


def blocks_of(page: Path) -> list[Block]:
    found = []
    for info, text, before in fences(page.read_text(encoding="utf-8")):
        title = _TITLE.search(info)
        found.append(Block(info.partition(" ")[0], title[1] if title else "", before, text))
    return found


BLOCKS = {str(page.relative_to(PROJECT)): blocks_of(page) for page in PAGES}


def runs(block: Block) -> bool:
    return bool(block.file) or (block.language == "python" and block.mark not in {FRAGMENT, EXCERPT})


def run(folder: Path, *command: str | Path) -> None:
    done = subprocess.run(
        [sys.executable, *command], cwd=folder, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[:6000]}"


@pytest.mark.parametrize("page", [page for page, blocks in BLOCKS.items() if any(map(runs, blocks))])
def test_the_code_of_a_page_runs(page, tmp_path):
    (tmp_path / "configs").symlink_to(PROJECT / "configs")
    files = [block for block in BLOCKS[page] if block.file]
    for block in files:
        (tmp_path / block.file).write_text(block.text, encoding="utf-8")
    script = [block.text for block in BLOCKS[page] if runs(block) and not block.file]
    if script:
        (tmp_path / "the_page.py").write_text("\n".join(script), encoding="utf-8")
        run(tmp_path, "the_page.py")
    tests = [block.file for block in files if block.file.startswith("test_")]
    hidden = Path(__file__).with_name(f"{Path(page).stem.replace('-', '_')}_page.py")
    if hidden.exists():
        tests.append(shutil.copy(hidden, tmp_path / f"test_{hidden.name}"))
    if tests:
        run(tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *tests)


def pages_with(mark: str) -> list[str]:
    return [page for page, blocks in BLOCKS.items() if any(block.mark == mark for block in blocks)]


@pytest.mark.parametrize("page", pages_with(FRAGMENT))
def test_the_fragments_of_a_page_are_python(page):
    for block in BLOCKS[page]:
        if block.mark == FRAGMENT:
            assert block.language == "python"
            ast.parse(block.text)


@pytest.mark.parametrize("page", pages_with(EXCERPT))
def test_the_excerpts_of_a_page_are_lines_of_an_example(page):
    folders = (PROJECT / "samzapy" / "examples", PROJECT / "configs")
    texts = [path.read_text(encoding="utf-8") for folder in folders for path in folder.rglob("*.py")]
    templates = (PROJECT / "samzapy" / "cli" / "templates" / "count").glob("*.py.txt")
    hello = [path.read_text(encoding="utf-8").replace("$name", "hello") for path in templates]
    examples = ["\n".join(map(str.strip, text.splitlines())) for text in [*texts, *hello]]
    for block in BLOCKS[page]:
        if block.mark == EXCERPT:
            wanted = "\n".join(map(str.strip, block.text.splitlines()))
            assert any(wanted in example for example in examples), block.text
