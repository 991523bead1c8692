"""CONTRIBUTING.md names files that exist, and its recipes name every file that they need.

Five recipes are followed to the letter: a toy serde, system, metric, window and commit step are added to a copy of the
tree by edits of the named files alone, and then the suites that the recipes name run over them.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys

import pytest

from tests.architecture.facts import ROOT

PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
_PATH = re.compile(r"`((?:samzapy|tests|configs)/[\w./-]*|[\w-]+\.(?:md|toml))`")

#: By recipe and file: the text to look for, and the text that takes its place. A file without a text to look for is
#: new.
TOYS: dict[str, dict[str, list[tuple[str, str]]]] = {
    "Add a serde": {
        "samzapy/serializers/primitives.py": [
            (
                "class UUIDSerde(HintedSerde):",
                (
                    "class ToySerde(HintedSerde):\n"
                    '    """Text, backwards."""\n\n'
                    "    def to_bytes(self, value: Any) -> bytes:\n"
                    "        return str.encode(value[::-1])\n\n"
                    "    def from_bytes(self, data: bytes) -> str:\n"
                    "        return data.decode()[::-1]\n\n\n"
                    "class UUIDSerde(HintedSerde):"
                ),
            )
        ],
        "samzapy/serializers/__init__.py": [
            ("from samzapy.serializers.primitives import ", "from samzapy.serializers.primitives import ToySerde, "),
            ("__all__ = [", '__all__ = [\n    "ToySerde",'),
        ],
        "samzapy/config/reading/classes.py": [
            ("SERDES = KnownClasses(\n    {", 'SERDES = KnownClasses(\n    {"toy": "samzapy.serializers:ToySerde",')
        ],
        "tests/unit/serializers/test_serdes.py": [
            ("    UUIDSerde,\n)", "    UUIDSerde,\n    ToySerde,\n)"),
            ("WRITTEN = [\n", 'WRITTEN = [\n    (ToySerde(), "ab", b"ba"),\n'),
            ("KINDS = [\n", "KINDS = [\n    (ToySerde(), st.text()),\n"),
        ],
    },
    "Add a system": {
        "samzapy/system/NAME/": [
            (
                "",
                (
                    "from samzapy.system.local.factory import MemorySystemFactory\n\n\n"
                    "class ToySystemFactory(MemorySystemFactory):\n"
                    '    """As memory."""\n'
                ),
            )
        ],
        "samzapy/config/reading/classes.py": [
            (
                "SYSTEMS = KnownClasses(\n    {",
                'SYSTEMS = KnownClasses(\n    {\n        "toy": "samzapy.system.toy:ToySystemFactory",',
            )
        ],
        "tests/contract/systems.py": [
            (
                "SYSTEMS = {\n",
                (
                    "def toy_settings(request):\n"
                    "    request.addfinalizer(MemoryCluster.reset_all)\n"
                    '    return SystemSettings("toy", "samzapy.system.toy:ToySystemFactory")\n\n\n'
                    'SYSTEMS = {\n    "toy": pytest.param(toy_settings, id="toy"),\n'
                ),
            )
        ],
    },
    "Add a metric": {
        "samzapy/container/commit_protocol.py": [
            ("self._commits =", 'self._toys = metrics.counter("commit", "toys")\n        self._commits =')
        ],
        "samzapy/metrics/families.py": [
            ('    "commit": {\n', '    "commit": {\n        "toys": counter("toys", "Toys made."),\n')
        ],
        "tests/unit/metrics/test_series.py": [
            (
                "def test_the_content_type",
                (
                    "def test_a_toy_is_counted():\n"
                    '    assert value(parsed({"commit": {"toys": 3}}), "samzapy_toys_total") == 3\n\n\n'
                    "def test_the_content_type"
                ),
            )
        ],
    },
    "Add a window": {
        "samzapy/operators/windows/aligned.py": [
            ("class AlignedState(", 'class ToyWindows(Tumbling):\n    """As tumbling ones."""\n\n\nclass AlignedState(')
        ],
        "samzapy/operators/windows/__init__.py": [
            ("aligned import Hopping, ", "aligned import Hopping, ToyWindows, "),
            ("__all__ = [", '__all__ = [\n    "ToyWindows",'),
        ],
        "tests/property/operators/test_window_batches.py": [
            ("    Top,\n    Tumbling,\n", "    Top,\n    ToyWindows,\n    Tumbling,\n"),
            ("WINDOWS = [", "WINDOWS = [ToyWindows(7), "),
        ],
    },
    "Add a commit step": {
        "samzapy/container/commit_protocol.py": [
            ("    7  count it\n", "    6a say that the stores have it\n    7  count it\n"),
            (
                "        # 7  count it\n",
                '        # 6a toy\n        self._toy()\n        reach("commit.6a")\n        # 7\n',
            ),
            (
                (
                    "    def _positions(self, tasks: Sequence[TaskInstance], offsets: Positions) -> Positions:\n"
                    '        """The input'
                ),
                (
                    "    def _toy(self) -> None:\n        self._toys.inc()\n\n"
                    "    def _positions(self, tasks: Sequence[TaskInstance], offsets: Positions) -> Positions:\n"
                    '        """The input'
                ),
            ),
        ],
        "tests/unit/container/commit/test_commit_order.py": [
            (
                "COMMIT_MS = {",
                (
                    "from samzapy import InitableTask, StreamTask\n"
                    "from samzapy.testing import TaskTestDriver\n\n\n"
                    "class ToyTask(StreamTask, InitableTask):\n"
                    "    def init(self, context):\n"
                    '        self.texts = context.get_store("texts")\n\n'
                    "    def process(self, envelope, collector, coordinator):\n"
                    '        text = self.texts.get(envelope.key) or ""\n'
                    "        self.texts.put(envelope.key, text + envelope.message)\n\n\n"
                    "def test_a_crash_after_the_toy_step_leaves_a_toy_store_at_its_commit():\n"
                    "    config = {\n"
                    '        "task.inputs": "toys.in", "systems.toys.samza.factory": "toy",\n'
                    '        "systems.toys.default.stream.samza.key.serde": "toy",\n'
                    '        "systems.toys.default.stream.samza.msg.serde": "toy",\n'
                    '        "stores.texts.factory": "rocksdb", "stores.texts.changelog": "toys.log",\n'
                    '        "stores.texts.key.serde": "toy", "stores.texts.msg.serde": "toy",\n'
                    "    }\n"
                    "    with TaskTestDriver(ToyTask, config) as driver:\n"
                    '        driver.send("in", "ab", key="k")\n'
                    '        driver.crash("commit.6a")\n'
                    "        driver.restart()\n"
                    '        driver.send("in", "cd", key="k")\n'
                    '        assert driver.store("texts").get("k") == "abcd"\n'
                    "        driver.commit()\n"
                    '        assert driver.changelog("texts").messages == ["ab", "abcd"]\n\n\n'
                    "COMMIT_MS = {"
                ),
            )
        ],
        "tests/torture/crashes/test_crash_matrix.py": [('"6", "7")]', '"6", "6a", "7")]')],
    },
}
#: Named files that a toy needs not touch: it brings no library, and the suites of all windows run over it.
OPTIONAL = {"tests/architecture/libraries.py", "tests/unit/operators/test_windows.py"}


def named(recipe: str) -> list[str]:
    """The files that the numbered points of a recipe begin with."""
    section = PAGE.partition(f"\n### {recipe}\n")[2].partition("\n#")[0]
    return re.findall(r"^\d+\. `([^`]+)`", section, re.MULTILINE)


def test_every_file_that_the_page_names_exists():
    found = {path for path in _PATH.findall(PAGE) if "NAME" not in path}
    found |= set(re.findall(r"^\w+ +(samzapy/\S+\.py)  ", PAGE, re.MULTILINE))
    assert len(found) > 30
    assert not [path for path in sorted(found) if not (ROOT / path).exists()]


def test_every_recipe_begins_with_the_file_that_holds_the_new_thing():
    recipes = re.findall(r"^### (Add .*)$", PAGE, re.MULTILINE)
    assert len(recipes) == 10
    assert all(named(recipe) for recipe in recipes)


@pytest.mark.parametrize("recipe", TOYS)
def test_a_toy_touches_exactly_the_files_that_its_recipe_names(recipe):
    assert TOYS[recipe].keys() == set(named(recipe)) - OPTIONAL


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """A copy of the tree with all toys in it."""
    folder = tmp_path_factory.mktemp("tree")
    ignore = shutil.ignore_patterns("__pycache__", "results")
    for part in ("samzapy", "tests"):
        shutil.copytree(ROOT / part, folder / part, ignore=ignore)
    shutil.copy(ROOT / "pyproject.toml", folder)
    for files in TOYS.values():
        for name, edits in files.items():
            path = folder / name.replace("NAME", "toy")
            for old, new in edits:
                if not old:
                    path.mkdir()
                    (path / "__init__.py").write_text(new)
                    continue
                text = path.read_text()
                assert text.count(old) == 1, f"{name}: {old!r} must occur once, so that the toy finds its place"
                path.write_text(text.replace(old, new))
    return folder


@pytest.mark.slow
def test_the_toys_work_and_the_suites_that_the_recipes_name_take_them(copy):
    suites = [
        "tests/unit/serializers/test_serdes.py",
        "tests/contract/system/test_system_contract.py",
        "tests/contract/system/test_system_transactions_contract.py",
        "tests/unit/metrics/test_series.py",
        "tests/property/operators/test_window_batches.py",
        "tests/unit/container/commit/test_commit_order.py",
    ]
    chosen = "toy or test_serdes or leaves_what"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", chosen, *suites]
    done = subprocess.run(
        command,
        cwd=copy,
        env={**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None
    assert int(passed[1]) > 80, done.stdout
