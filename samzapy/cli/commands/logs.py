"""`samzapy logs`, `samzapy status` and `samzapy ps`: see jobs from the machine that runs them."""

from __future__ import annotations

import shlex
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from samzapy.cli.output import JSON, job_file, json_text, table
from samzapy.config.job import JobConfig
from samzapy.coordinator.clocks import utc
from samzapy.errors import counted


@click.command()
@job_file
@click.option("--container", metavar="N", help="Only the lines of this container, from its own file if it runs here.")
def logs(config: JobConfig, container: str | None) -> None:
    """Print the log of a job: the driver's log, with lines of its containers. Without one, print the containers' logs.

    The files are below job.log.dir on the machine that runs the driver or the container. `tail -F` follows one.
    """
    from samzapy.container.supervision.logs import about_container, log_folder
    from samzapy.errors import EnvironmentFailure

    folder = log_folder(config.supervision.log, config.job_name)
    files = _files(folder, container)
    of = "" if container is None else f" of container {container}"
    if not files:
        raise EnvironmentFailure(f"{folder}: no log{of}; the job has not run here, or job.log.dir is another folder")
    every = container is None or files[0].name == f"container-{container}.log"
    shown = 0
    for path in (item for file in files for item in _rotated(file)):
        # A rotation may rename it, or remove it, before it is opened.
        with suppress(FileNotFoundError):
            for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
                if every or about_container(line, str(container)):
                    click.echo(line)
                    shown += 1
    if not shown:
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


def _rotated(path: Path) -> list[Path]:
    """The files of a log, oldest first; files of other programs next to it, such as `driver.log.1.gz`, are none."""
    numbers = (item.name.removeprefix(f"{path.name}.") for item in path.parent.glob(f"{path.name}.*"))
    own = sorted((int(number) for number in numbers if number.isascii() and number.isdigit()), reverse=True)
    return [*(path.with_name(f"{path.name}.{number}") for number in own), path]


@click.command()
@job_file
@click.option("--json", "as_json", is_flag=True, help="Print the whole status as a line of JSON.")
def status(config: JobConfig, *, as_json: bool) -> None:
    """Show the state of a running job: containers, lag, stalls, the last failure of its code."""
    from samzapy.admin.queries import status_of
    from samzapy.coordinator.overview.diagnosis import JOB

    result = status_of(config)
    if as_json:
        click.echo(json_text(result))
        return
    lag = "" if result["lag"] is None else f", lag {result['lag']:,}"
    click.echo(
        f"{result['job']}: {counted(result['processed'], 'message')}, {counted(result['commits'], 'commit')}{lag}"
    )
    diagnosis = result["diagnosis"]
    for line in (diagnosis["text"], *diagnosis["also"]):
        click.echo(line)
    if diagnosis["command"]:
        file = shlex.quote(str(click.get_current_context().params["job"]))
        click.echo(f"next: {diagnosis['command'].replace(JOB, file)}")
    click.echo()
    containers = result["containers"]
    table("Containers", ("container", "state", "phase", "messages", "lag", "stalled"), map(_container, containers))
    partitions = [(item["id"], *lag) for item in containers for lag in sorted((item["lags"] or {}).items())]
    columns = ("container", "partition", "next offset", "end", "lag", "oldest")
    table("Partitions", columns, (_partition(*partition) for partition in partitions))
    for container in containers:
        _details(container)


@click.command()
@JSON
def ps() -> None:
    """List the processes of your jobs on this machine, with their status pages: drivers and containers.

    The command finds processes that have a file in job.log.dir open: runs of `samzapy run`, and workers of executors.
    """
    from samzapy.admin.running import job_processes

    rows = ((item.job, item.part, item.pid, utc(item.since_ms), item.page, item.log) for item in job_processes())
    table("Processes of jobs", ("job", "part", "pid", "since", "page", "log"), rows)


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
    stalled, failure = container["stalled"], container["failure"]
    if stalled is not None and stalled["stack"]:
        click.echo(f"container {container['id']} is stalled {_stall(stalled)}:\n{stalled['stack']}\n")
    if failure is not None:
        click.echo(f"container {container['id']}, last failure: {failure['where']}:\n{failure['traceback']}\n")
