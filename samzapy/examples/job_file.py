"""The job that a command line names."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from samzapy.config.job import JobConfig
from samzapy.config.loader import load_job


def job_from_arguments(command: str, arguments: Sequence[str] | None = None) -> JobConfig:
    """The checked job of `JOB.properties [--config key=value]...`; None: this process's arguments.

    `command` is how it was called, without `python`. Raises ConfigError."""
    parser = argparse.ArgumentParser(prog=f"python {command}")
    parser.add_argument("job", metavar="JOB.properties")
    parser.add_argument("--config", action="append", default=[], metavar="KEY=VALUE", help="override one key")
    options = parser.parse_args(arguments)
    overrides = {}
    for override in options.config:
        key, equals, value = override.partition("=")
        if not equals:
            parser.error(f"--config needs KEY=VALUE, got {override!r}")
        overrides[key] = value
    return load_job(options.job, overrides)
