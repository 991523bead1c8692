"""Finds the system that a `topic` command talks to: one of a job file, or one described by options."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

import click

from samzapy.api.stream import SystemStream
from samzapy.api.system import SystemSettings
from samzapy.cli.options import OVERRIDES, pairs
from samzapy.config.job import JobConfig
from samzapy.config.loader import load_job
from samzapy.config.reading.reader import Reader
from samzapy.config.streams.systems import parse_systems
from samzapy.errors import ConfigError, ConfigProblem

#: The default address of `samzapy kafka start`.
_DEVELOPMENT_BROKER = "127.0.0.1:9092"


@dataclass(frozen=True)
class Addressing:
    """The options that locate streams: by a job file, or by a description of the system."""

    job: Path | None
    kind: str | None
    path: str | None
    bootstrap: str | None
    overrides: tuple[str, ...] = ()

    def config(self) -> JobConfig | None:
        """The job, if one was named."""
        if self.job is None:
            if self.overrides:
                raise click.UsageError("--config overrides keys of a job file: name it with --job")
            return None
        if self.kind or self.path or self.bootstrap:
            raise click.UsageError("--job says where the systems are; leave out --system, --path and --bootstrap")
        return load_job(self.job, pairs(self.overrides))

    def settings(self, system: str, config: JobConfig | None) -> SystemSettings:
        """The settings of the system that addresses call `system`. Raises ConfigError if the job has none such."""
        if config is None:
            return self._described(system)
        found = config.systems.get(system)
        if found is None:
            known = ", ".join(config.systems)
            raise ConfigError([ConfigProblem("address", system, f"the job's systems are {known}")])
        return found

    def _described(self, system: str) -> SystemSettings:
        kind = self.kind or ("kafka" if self.bootstrap or (system == "kafka" and not self.path) else "local")
        if (kind != "local" and self.path) or (kind != "kafka" and self.bootstrap):
            raise click.UsageError("--path is for a local system, --bootstrap for kafka")
        keys = {f"systems.{system}.samza.factory": kind}
        if self.path:
            keys[f"systems.{system}.path"] = self.path
        if kind == "kafka":
            for client in ("consumer", "producer"):
                keys[f"systems.{system}.{client}.bootstrap.servers"] = self.bootstrap or _DEVELOPMENT_BROKER
        reader = Reader(keys)
        systems = parse_systems(reader)
        if reader.problems:
            raise ConfigError(reader.problems)
        return systems[system]


def addressed(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options of `Addressing`, which the command gets as `where`."""

    @click.option("--job", type=click.Path(path_type=Path), metavar="FILE", help="A job file that has the system.")
    @OVERRIDES
    @click.option("--system", "kind", type=click.Choice(["local", "kafka"]), help="The kind of system.")
    @click.option("--path", metavar="FILE", help="A local system's file; default .samzapy/local.db.")
    @click.option("--bootstrap", metavar="HOST:PORT", help=f"A Kafka broker; default {_DEVELOPMENT_BROKER}.")
    @wraps(command)
    def with_where(
        *args: Any,
        job: Path | None,
        kind: str | None,
        path: str | None,
        bootstrap: str | None,
        overrides: tuple[str, ...],
        **options: Any,
    ) -> None:
        command(*args, where=Addressing(job, kind, path, bootstrap, overrides), **options)

    return with_where


def stream_address(text: str) -> SystemStream:
    """`system.stream`. Raises click's error for anything else."""
    try:
        return SystemStream.parse(text)
    except ValueError as cause:
        raise click.BadParameter(str(cause), param_hint="ADDRESS") from cause
