"""Compiles the C sources of this folder: for a build, and for the tests that change them."""

from __future__ import annotations

import os
import runpy
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path

_SOURCES = Path(__file__).parent
#: Names without the folder of this build, and no debug information: the same sources give the same file.
_FLAGS = ("-O2", "-std=c11", "-g0", "-fPIC", "-fvisibility=hidden", "-shared", "-Wl,--build-id=none", "-Wl,-s")


def compile_extension(target: Path) -> str:
    """Compile the sources beside this file into `target`; returns why that is not possible, empty if it is done."""
    if sys.implementation.name != "cpython" or sysconfig.get_config_var("Py_GIL_DISABLED"):
        return f"this is {sys.implementation.name} without the stable ABI"
    include = sysconfig.get_path("include")
    if not Path(include, "Python.h").exists():
        return f"Python's headers are not in {include} (Debian: apt-get install python3-dev)"
    compiler = shlex.split(os.environ.get("CC") or "cc")
    digest = runpy.run_path(str(_SOURCES / "__init__.py"))["sources_digest"](_SOURCES)
    macros = ("-DPy_LIMITED_API=0x030A0000", f'-DSAMZAPY_SOURCES="{digest}"')
    sources = [path.name for path in sorted(_SOURCES.glob("*.c"))]
    # A process that has loaded the file keeps it.
    part = target.with_suffix(f".{os.getpid()}")
    command = [*compiler, *_FLAGS, *macros, f"-I{include}", *sources, "-o", str(part)]
    try:
        done = subprocess.run(command, cwd=_SOURCES, capture_output=True, text=True, check=False)
    except OSError as cause:
        return f"there is no C compiler: {compiler[0]}: {cause.strerror} (Debian: apt-get install gcc)"
    if done.returncode:
        part.unlink(missing_ok=True)
        return f"{compiler[0]} failed: {(done.stderr.strip().splitlines() or [''])[0]}"
    part.replace(target)
    return ""
