"""`systems.NAME.*` of a local system."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from samzapy.api.system import SystemSettings
from samzapy.errors import ConfigError, ConfigProblem

_SYNCHRONOUS = ("normal", "full")


@dataclass(frozen=True)
class LocalSettings:
    """`path` (default `.samzapy/local.db` below the current folder); `busy_timeout_ms`: how long to wait for another
    process's write; `synchronous`: `normal` survives the death of any process, `full` also that of the machine."""

    system: str
    path: Path
    busy_timeout_ms: int = 30_000
    synchronous: str = "normal"

    def __str__(self) -> str:
        return f"local system '{self.system}' ({self.path})"


def local_settings(settings: SystemSettings) -> LocalSettings:
    """Read `path`, `busy.timeout.ms` and `synchronous`; other keys mean nothing here. Raises ConfigError."""
    prefix, properties = f"systems.{settings.name}.", settings.properties
    problems = []
    path = properties.get("path", ".samzapy/local.db")
    if not path.strip() or "\0" in path:
        problems.append(ConfigProblem(f"{prefix}path", path, "the path of a file"))
    timeout = properties.get("busy.timeout.ms", "30000")
    if not timeout.isdecimal() or int(timeout) < 1:
        problems.append(ConfigProblem(f"{prefix}busy.timeout.ms", timeout, "integer >= 1"))
    synchronous = properties.get("synchronous", "normal")
    if synchronous not in _SYNCHRONOUS:
        problems.append(ConfigProblem(f"{prefix}synchronous", synchronous, "normal or full"))
    if problems:
        raise ConfigError(problems)
    return LocalSettings(settings.name, Path(path).absolute(), int(timeout), synchronous)
