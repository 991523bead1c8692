"""The Java that Spark needs anyway."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from samzapy.errors import EnvironmentFailure

OLDEST_JAVA = 17

_VERSION = re.compile(r'version "(\d+)(?:\.(\d+))?')
_ADVICE = "install a JDK 17, or set JAVA_HOME to one"


def find_java() -> Path:
    """The `java` of JAVA_HOME, else of the PATH. Raises EnvironmentFailure if it is missing or too old."""
    home = os.environ.get("JAVA_HOME")
    java = Path(home, "bin", "java") if home else Path(shutil.which("java") or "java")
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired) as cause:
        where = f"JAVA_HOME={home}" if home else "the PATH"
        raise EnvironmentFailure(f"Spark 4 needs Java {OLDEST_JAVA}+, found none in {where}: {_ADVICE}") from cause
    version = java_version(answer.stderr + answer.stdout)
    if version < OLDEST_JAVA:
        raise EnvironmentFailure(f"Spark 4 needs Java {OLDEST_JAVA}+, found {version or 'none'}: {_ADVICE}")
    return java


def java_version(text: str) -> int:
    """The major version in what `java -version` prints; 0 if there is none. Before Java 9 it was the second number."""
    match = _VERSION.search(text)
    if match is None:
        return 0
    return int(match[2] or 0) if match[1] == "1" else int(match[1])
