"""Compiles the extension when samzapy is built or installed from its sources: a hook of the build backend, hatchling.

There is one file for all versions of Python from 3.10 on, since it uses only the stable ABI. Where it cannot be
compiled, the package is built without it, and everything runs in Python. `SAMZAPY_NATIVE` in the environment: `0` does
without it, `1` makes a failure an error.
"""

from __future__ import annotations

import os
import runpy
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_SOURCES = Path(__file__).parent
_NAME = "extension.abi3.so"
# A build has no package to import from.
compile_extension = runpy.run_path(str(_SOURCES / "compiler.py"))["compile_extension"]


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
