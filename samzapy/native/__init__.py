"""The compiled parts of samzapy: a module in C, built with the package where there is a C compiler.

Everything in it is also there in Python, with the same results. The module that has the Python code chooses, when it is
imported:

    consumed records as columns        samzapy/system/kafka/fetching.py
    records into librdkafka's queue    samzapy/system/kafka/queue.py
    entries of an object cache         samzapy/storage/kv/entries.py

`SAMZAPY_NATIVE=0` in the environment chooses Python everywhere.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from types import ModuleType


def sources_digest(folder: Path) -> str:
    """A digest of the C sources in a folder, empty if there are none."""
    sources = sorted(path for path in folder.iterdir() if path.suffix in {".c", ".h"})
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in sources)).hexdigest()[:16] if sources else ""


def _load() -> tuple[ModuleType | None, str]:
    if os.environ.get("SAMZAPY_NATIVE") == "0":
        return None, "SAMZAPY_NATIVE=0"
    try:
        from samzapy.native import extension as result  # noqa: PLC0415  # it may be missing
    except ImportError as cause:
        built = any(Path(__file__).parent.glob("extension.*.so"))
        return None, f"the extension cannot be loaded ({cause})" if built else "the extension is not built"
    # A wheel has no sources. A working tree may have changed since the last installation.
    if sources_digest(Path(__file__).parent) not in {"", result.SOURCES}:
        return None, "the extension is built from other sources: make install"
    return result, ""


_loaded, missing = _load()
#: The module, None if it is not there; then `missing` says why.
extension = _loaded
