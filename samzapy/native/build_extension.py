"""Compiles the extension when samzapy is built or installed from its sources: a hook of the build backend, hatchling.

There is one file for all versions of Python from 3.10 on, since it uses only the stable ABI. Where it cannot be compiled, the package
is built without it, and everything runs in Python. `SAMZAPY_NATIVE` in the environment: `0` does without it, `1` makes a
failure an error.
"""

from __future__ import annotations

import os
import runpy
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_SOURCES = Path(__file__).parent
_NAME = "extension.abi3.so"
#: Names without the folder of this build, and no debug information: the same sources give the same file.
_FLAGS = ("-O2", "-std=c11", "-g0", "-fPIC", "-fvisibility=hidden", "-shared", "-Wl,--build-id=none", "-Wl,-s")


class ExtensionHook(BuildHookInterface[Any]):  # type: ignore[misc]  # hatchling is there when a build runs
    """Adds the extension to a wheel, or puts it beside the sources for an editable installation."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and name the wheel for this platform; a wheel without the extension is for any platform."""
        if self.target_name != "wheel":
            return
        wish = os.environ.get("SAMZAPY_NATIVE", "")
        target = _SOURCES / _NAME
        problem = "SAMZAPY_NATIVE=0" if wish == "0" else compile_extension(target)
        if problem:
            target.unlink(missing_ok=True)
            if wish == "1":
                raise RuntimeError(f"the extension cannot be compiled: {problem}")
            self.app.display_warning(f"samzapy is built without its compiled extension: {problem}")
            return
        build_data["pure_python"] = False
        build_data["tag"] = f"cp310-abi3-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"
        build_data["artifacts"].append(f"/samzapy/native/{_NAME}")


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
