"""The arguments and options that several commands take: the job file and its overrides."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from samzapy.cli.output import warn
from samzapy.errors import EnvironmentFailure, RestoreError, RetriableError

if TYPE_CHECKING:
    from samzapy.config.job import JobConfig

#: The job file, as the first argument of a command, and the keys that the command line overrides.
JOB = click.argument("job", type=click.Path(path_type=Path), metavar="JOB.properties")
OVERRIDES = click.option(
    "--config", "-c", "overrides", multiple=True, metavar="KEY=VALUE", help="Override a key of the job file."
)
_UP_TO_A_SEPARATOR = re.compile(r"^(\s*[\w.-]*[^\w.-]).+", re.DOTALL)


class Number(click.FloatRange):
    """A number in a range. Refuses `nan`, which click's comparisons accept: a time limit of `nan` never ends."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = float(super().convert(value, param, ctx))
        if math.isnan(number):
            self.fail(f"expected a number, got {value!r}", param, ctx)
        return number


def pairs(texts: Iterable[str], option: str = "--config") -> dict[str, str]:
    """Keys and values; of two equal keys the last one counts. Raises click's error for anything else. The error has the
    text only up to the first character that no key has, because the rest may be a secret."""
    result = {}
    for text in texts:
        key, separator, value = text.partition("=")
        if not separator or not key.strip():
            shown = _UP_TO_A_SEPARATOR.sub(r"\1...", text)
            raise click.BadParameter(f"expected KEY=VALUE, got {shown!r}", param_hint=option)
        result[key.strip()] = value
    return result


def look_at_target(file: Path | None) -> None:
    """Check before a long command that its output file can be written; leaves the content as it is. Raises OSError."""
    if file is not None:
        file.open("a").close()


@contextmanager
def answers_by_exit_code() -> Iterator[None]:
    """For a command that answers with exit code 1: a system that fails, as a broker that restarts, ends it with 3."""
    try:
        yield
    except (RetriableError, RestoreError) as failure:
        raise EnvironmentFailure(str(failure)) from failure


def job_file(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the job file and its overrides; the command gets the `config`."""

    @JOB
    @OVERRIDES
    @wraps(command)
    def with_config(*args: Any, job: Path, overrides: tuple[str, ...], **options: Any) -> None:
        from samzapy.config.loader import load_job

        command(*args, config=load_job(job, pairs(overrides)), **options)

    return with_config


def of_job(command: Callable[..., None]) -> Callable[..., None]:
    """Like `job_file`; the command also gets the `model`, with inputs as the systems have them now."""

    @job_file
    @wraps(command)
    def with_model(*args: Any, config: JobConfig, **options: Any) -> None:
        from samzapy.admin.job_check import look_around, resolved

        config = resolved(config)
        command(*args, config=config, model=look_around(config, warn)[0], **options)

    return with_model
