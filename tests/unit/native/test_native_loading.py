"""When the compiled extension is used, and what is said when it is not."""

import shutil
import subprocess
import sys
from pathlib import Path

from samzapy import native

SHOW = "from samzapy import native; print(native.extension is not None, native.missing)"


def shown(folder=None, **env):
    done = subprocess.run([sys.executable, "-c", SHOW], capture_output=True, text=True, check=True, cwd=folder, env=env)
    return done.stdout.strip()


def copied(folder):
    """A samzapy with nothing but the package of the extension."""
    source = Path(native.__file__).parent
    shutil.copytree(source, folder / "samzapy" / "native", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "samzapy" / "__init__.py").touch()
    return folder / "samzapy" / "native"


def built(folder):
    """The same with the extension; without a C compiler, with another module that names its sources."""
    made = copied(folder)
    if native.extension is None:
        (made / "extension.abi3.so").unlink(missing_ok=True)
        (made / "extension.py").write_text(f"SOURCES = {native.sources_digest(made)!r}\n")
    return made


def test_the_environment_can_do_without():
    assert shown(SAMZAPY_NATIVE="0") == "False SAMZAPY_NATIVE=0"


def test_without_the_file_the_reason_is_said(tmp_path):
    (copied(tmp_path) / "extension.abi3.so").unlink(missing_ok=True)
    assert shown(tmp_path) == "False the extension is not built"


def test_a_file_of_other_sources_is_not_used(tmp_path):
    folder = built(tmp_path)
    assert shown(tmp_path) == "True"
    with (folder / "entries.c").open("a") as file:
        file.write("/* changed */\n")
    assert shown(tmp_path) == "False the extension is built from other sources: make install"


def test_a_wheel_has_no_sources_to_compare_with(tmp_path):
    folder = built(tmp_path)
    for source in [*folder.glob("*.c"), *folder.glob("*.h")]:
        source.unlink()
    assert shown(tmp_path) == "True"
