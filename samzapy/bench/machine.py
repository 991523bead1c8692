"""What a measurement was made on."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import psutil

_PACKAGES = ("samzapy", "confluent-kafka", "numpy", "orjson", "pyspark", "rocksdict")


def describe_machine() -> dict[str, Any]:
    """Processor, cores, memory, operating system, load before the run (a busy machine measures others too)."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
        "system": f"{platform.system()} {platform.release()}",
        "load_average": [round(load, 2) for load in os.getloadavg()],
    }


def describe_versions() -> dict[str, str]:
    """Python, Java and the packages that the figures depend on."""
    return {"python": platform.python_version(), "java": _java(), **{name: _version(name) for name in _PACKAGES}}


def _processor() -> str:
    path = Path("/proc/cpuinfo")
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else "java"
    try:
        shown = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False).stderr
    except (OSError, subprocess.TimeoutExpired):
        return "-"
    return shown.splitlines()[0] if shown else "-"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "-"
