"""`samzapy logs` and `samzapy status`: look at a job from the machine that runs it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

import click

from samzapy.cli.options import job_file
from samzapy.config.job import JobConfig

#: Seconds between two looks for new lines.
_PACE_S = 0.25


@click.command()
@job_file
@click.option("--container", metavar="N", help="Only the lines of this container, from its own file if it runs here.")
@click.option("--follow", "-f", is_flag=True, help="Keep printing new lines, until Ctrl-C.")
def logs(config: JobConfig, container: str | None, *, follow: bool) -> None:
    """Print the log of a job: the driver's log, with lines of its containers. Without one, print the containers' logs.

    The files are below job.log.dir on the machine that runs the driver or the container.
    """
    from samzapy.container.supervision.logs import log_folder
    from samzapy.errors import EnvironmentFailure

    folder = log_folder(config.supervision.log, config.job_name)
    files = _files(folder, container)
    if not files:
        what = f"no log of container {container}" if container is not None else "no log"
        raise EnvironmentFailure(f"{folder}: {what}; the job has not run here, or job.log.dir is another folder")
    own = container is not None and files[0].name == f"container-{container}.log"
    wanted = (
        None
        if container is None or own
        else (f"[container {container},", f"[container {container}]", f'"container":"{container}"')
    )
    shown = 0
    with suppress(KeyboardInterrupt):
        for line in _lines(files, follow=follow):
            if wanted is None or any(mark in line for mark in wanted):
                click.echo(line)
                shown += 1
        if not shown:
            of = "" if container is None else f" of container {container}"
            click.echo(f"{', '.join(map(str, files))}: no lines{of} yet", err=True)


def _files(folder: Path, container: str | None) -> list[Path]:
    """The newest files with the wanted lines; the driver's files have fewer lines of a container than its own."""
    own = folder / f"container-{container}.log"
    if container is not None and own.exists():
        return [own]
    driver = folder / "driver.log"
    containers = [] if container is not None else sorted(folder.glob("container-*.log"))
    if driver.exists() and all(driver.stat().st_mtime >= item.stat().st_mtime - 60 for item in containers):
        return [driver]
    return containers


def _lines(files: list[Path], *, follow: bool) -> Iterator[str]:
    """The lines of the files, rotated ones first, and then new lines as they come."""
    for path in files:
        for item in _rotated(path):
            # The next rotation may rename it, or remove it, before it is opened.
            with suppress(FileNotFoundError):
                yield from item.read_text(encoding="utf-8", errors="replace").splitlines()
    tails = [_Tail(path) for path in files]
    while True:
        for tail in tails:
            yield from tail.new()
        if not follow:
            return
        _wait()


def _rotated(path: Path) -> list[Path]:
    """The rotated files of a log, oldest first; files of other programs beside it, such as `driver.log.1.gz`, are
    none."""
    numbered = [
        (int(number), item) for item in path.parent.glob(f"{path.name}.*") if _is_number(number := item.suffix[1:])
    ]
    own = [(number, item) for number, item in numbered if item.name == f"{path.name}.{number}"]
    return [item for _, item in sorted(own, reverse=True)]


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _wait() -> None:
    from threading import Event

    Event().wait(_PACE_S)


class _Tail:
    """Reads the new lines of one file, and goes on with the next file after a rotation."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: TextIO | None = None

    def new(self) -> Iterator[str]:
        """The whole lines since the last call."""
        if self._file is None:
            with suppress(FileNotFoundError):
                self._file = self._path.open(encoding="utf-8", errors="replace")
        if self._file is None:
            return
        yield from self._rest(self._file)
        if self._rotated(self._file):
            yield from self._rest(self._file)
            self._file.close()
            self._file = None
            yield from self.new()

    @staticmethod
    def _rest(file: TextIO) -> Iterator[str]:
        while True:
            at = file.tell()
            line = file.readline()
            if not line.endswith("\n"):
                file.seek(at)
                return
            yield line.rstrip("\n")

    def _rotated(self, file: TextIO) -> bool:
        import os

        try:
            return os.fstat(file.fileno()).st_ino != self._path.stat().st_ino
        except FileNotFoundError:
            return False


@click.command()
@job_file
@click.option("--json", "as_json", is_flag=True, help="Print the whole status as a line of JSON.")
def status(config: JobConfig, *, as_json: bool) -> None:
    """Show the state of a running job: containers, lag, stalls, the last failure of its code."""
    from samzapy.admin.queries import status_of
    from samzapy.cli.output import json_text, table

    result = status_of(config)
    if as_json:
        click.echo(json_text(result))
        return
    lag = "" if result["lag"] is None else f", lag {result['lag']:,}"
    click.echo(f"{result['job']}: {result['processed']:,} messages, {result['commits']:,} commits{lag}\n")
    containers = result["containers"]
    table("Containers", ("container", "state", "phase", "messages", "lag", "stalled"), map(_container, containers))
    table(
        "Partitions",
        ("container", "partition", "next offset", "end", "lag", "oldest"),
        [_partition(item["id"], *lag) for item in containers for lag in sorted((item["lags"] or {}).items())],
    )
    for container in containers:
        _details(container)


def _container(container: dict[str, Any]) -> tuple[object, ...]:
    lag, age_s = container["lag"], container["lag_age_s"]
    unknown = "" if age_s is None or container["lags"] is not None else f"unknown for {age_s:.0f} s"
    return (
        container["id"],
        container["state"],
        container["phase"],
        f"{container['processed']:,}",
        unknown if lag is None else f"{lag:,}",
        "" if container["stalled"] is None else _stall(container["stalled"]),
    )


def _partition(container: str, ssp: str, lag: dict[str, Any]) -> tuple[object, ...]:
    age_ms = lag["age_ms"]
    return container, ssp, lag["position"], lag["end"], lag["lag"], "" if age_ms is None else f"{age_ms / 1000:,.1f} s"


def _stall(stalled: dict[str, Any]) -> str:
    return f"{stalled['reason']} for {stalled['seconds']:.0f} s"


def _details(container: dict[str, Any]) -> None:
    """The stack of a stall, and the traceback of the last failure."""
    stalled, failure = container["stalled"], container["failure"]
    if stalled is not None and stalled["stack"]:
        click.echo(f"container {container['id']} is stalled {_stall(stalled)}:\n{stalled['stack']}\n")
    if failure is not None:
        click.echo(f"container {container['id']}, last failure: {failure['where']}:\n{failure['traceback']}\n")
