"""The programs of Prometheus: from the path, else out of Debian's package, which is unpacked and not installed."""

import shutil
import subprocess
from pathlib import Path

import pytest


def prometheus_tool(name: str, folder: Path) -> str:
    """The path of `prometheus` or `promtool`; the package is unpacked into `folder`. Skips the test without them."""
    found = shutil.which(name)
    if found:
        return found
    for command in (["apt-get", "download", "prometheus"], ["sh", "-c", "dpkg -x prometheus_*.deb ."]):
        try:
            subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=120)
        except (OSError, subprocess.SubprocessError) as cause:
            pytest.skip(f"{name} is not here, and Debian's package prometheus cannot be had: {cause}")
    return str(folder / "usr/bin" / name)
