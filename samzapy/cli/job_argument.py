"""The job that a command is about, as its first argument."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click

from samzapy.cli.output import warn
from samzapy.cli.pairs import pairs


def of_job(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the job file and its overrides; the command gets `config` and `model`."""

    @click.argument("job", type=click.Path(path_type=Path), metavar="JOB.properties")
    @click.option("--config", "-c", "texts", multiple=True, metavar="KEY=VALUE", help="Override a key of the job file.")
    @wraps(command)
    def with_job(*args: Any, job: Path, texts: tuple[str, ...], **options: Any) -> None:
        from samzapy.admin.job_check import look_around
        from samzapy.config.loader import load_job

        config = load_job(job, pairs(texts))
        command(*args, config=config, model=look_around(config, warn)[0], **options)

    return with_job
