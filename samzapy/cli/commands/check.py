"""`samzapy check`: explain a job file, without starting anything."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from samzapy.admin.user_code import JobCode, imported_code
from samzapy.cli.output import (
    FILE,
    JOB,
    JSON,
    OVERRIDES,
    STRICT,
    answers_by_exit_code,
    json_text,
    pairs,
    table,
    wants_json,
    warn,
)
from samzapy.config.guarantee_warnings import GuaranteeWarning
from samzapy.config.job import JobConfig
from samzapy.config.stores import StoreConfig
from samzapy.config.streams import StreamConfig
from samzapy.errors import counted
from samzapy.job.planner import FoundInputs, JobModel
from samzapy.storage.spec import StoreSpec


@click.command()
@JOB
@OVERRIDES
@STRICT
@JSON
@click.option("--offline", is_flag=True, help="Connect to no system, and leave out the job model.")
@click.option(
    "--against",
    type=click.Choice(["running"]),
    help="Show which steps, stores and inputs differ from those of the running or last run.",
)
@click.option("--production", is_flag=True, help="Print what the job lacks for production; exit code 2 if it is red.")
@click.option("--rules", type=FILE, help="With --production: the file of the alert rules in your Prometheus.")
@click.option("--accept", multiple=True, metavar="CHECK", help="With --production: a check that need not be ok.")
def check(
    job: Path, overrides: tuple[str, ...], *, strict: bool, offline: bool, against: str | None, **checklist: Any
) -> None:
    """Explain a job file, and list all its problems.

    Reads the file, imports the task class, and asks the systems how many partitions the inputs have. Starts nothing,
    creates nothing, writes nothing. The exit code is 2 where a start would refuse.
    """
    production = checklist.pop("production")
    if offline and (against or production):
        raise click.UsageError("--against and --production ask the systems: leave out --offline")
    if any(checklist.values()) and not production:
        raise click.UsageError("--rules and --accept go with --production")
    from samzapy.config.guarantee_warnings import guarantee_warnings
    from samzapy.config.loader import load_job, with_inputs
    from samzapy.container.outputs.producers import weakened_state
    from samzapy.container.tasks.task_builder import never_called
    from samzapy.job.planner import without_idle_standbys
    from samzapy.runner.spark.master import check_reach, checked_master, with_sparks_defaults
    from samzapy.system.clients import load_factory

    given = load_job(job, pairs(overrides), strict=strict)
    for warning in given.warnings:
        warn(warning)
    code = imported_code(given)
    task_class = code.task_class
    on_disk = [name for name, spec in code.engines.items() if spec.persistent]
    config = without_idle_standbys(with_sparks_defaults(given), on_disk)
    for warning in (
        *config.warnings[len(given.warnings) :],
        *never_called(task_class, config.task.window_ms),
        *check_reach(config),
    ):
        warn(warning)
    if production:
        _show_checklist(config, code, **checklist)
        return
    if against:
        _show_changes(config, code)
    result = None if offline else _find_inputs(config)
    now = config if result is None else with_inputs(config, result.by_pattern)
    model, kept = (None, ()) if offline or not now.task.inputs else _inspect_start(now, code)
    if model is not None:
        endless = not any(now.stream(stream).bounded for stream in now.task.inputs)
        checked_master(now, len(model.containers), len(model.standbys), endless=endless)
    _show_job(config)
    if result is not None:
        _show_inputs(result)
    weaker = (*guarantee_warnings(config, load_factory, task_class), *weakened_state(config.stores, code.state), *kept)
    reasons = [("durability" if item.durability else "guarantee", item.key, item.message) for item in weaker]
    table("Reasons for a weaker guarantee", ("kind", "key", "effect"), reasons)
    if model is not None:
        _show_model(model)
        _show_needs(now, model, code.engines)


def _show_changes(config: JobConfig, code: JobCode) -> None:
    """Raises ConfigError for changes that a start refuses."""
    from samzapy.admin.changes import changes_since
    from samzapy.admin.job_check import resolved
    from samzapy.admin.running import describe_run
    from samzapy.errors import ConfigProblem, raise_if_any

    owner, changes = changes_since(resolved(config), code, warn)
    title = "Changes: no earlier run of this job" if owner is None else f"Changes since {describe_run(owner)}"
    rows = [] if owner is None else [item[:5] for item in changes]
    table(title, ("change", "name", "before", "now", "effect"), rows)
    raise_if_any(
        ConfigProblem(f"{item.kind} '{item.name}'", item.now, f"was '{item.before}', {item.effect}")
        for item in changes
        if item.refused
    )


def _show_checklist(config: JobConfig, code: JobCode, rules: Path | None, accept: tuple[str, ...]) -> None:
    """Print the checklist, and exit with code 2 if a line is red."""
    from samzapy.runner.production import CHECKS, checklist, survey

    unknown = sorted({*accept} - CHECKS.keys())
    if unknown:
        raise click.BadParameter(f"expected one of {', '.join(CHECKS)}, got {unknown[0]!r}", param_hint="--accept")
    with answers_by_exit_code():
        lines = list(
            checklist(survey(config, code, rules.read_text("utf-8", "replace") if rules else None, warn), accept)
        )
    red = [name for name, state, *_ in lines if state == "red"]
    if wants_json():
        named = [dict(zip(("check", "state", "reason", "see"), line, strict=True)) for line in lines]
        click.echo(json_text({"job": config.job_name, "ok": not red, "checks": named}))
    else:
        rows = [(name, state, "" if state == "ok" else see, reason) for name, state, reason, see in lines]
        table(f"Production checklist of {config.name} (id {config.id})", ("check", "state", "see", "what"), rows)
    if red:
        click.get_current_context().exit(2)


def _find_inputs(config: JobConfig) -> FoundInputs | None:
    """The streams that patterns match now. None for a job without patterns, for one that would wait for its first
    input, and, with a warning, if a system does not answer."""
    from samzapy.admin.job_check import inputs_now
    from samzapy.errors import EnvironmentFailure, RetriableError
    from samzapy.job.planner import check_found

    if not config.task.patterns:
        return None
    try:
        result = inputs_now(config)
    except (EnvironmentFailure, RetriableError) as error:
        warn(f"the inputs are left out: {error}")
        return None
    if result.streams or config.task.inputs or config.task.refresh_ms is None:
        check_found(config, result)
        return result
    warn(f"the job model is left out: the job waits until a stream matches {', '.join(map(str, config.task.patterns))}")
    return None


def _show_inputs(result: FoundInputs) -> None:
    rows: list[tuple[object, ...]] = [
        (pattern, stream, "input") for pattern, streams in result.by_pattern.items() for stream in streams
    ]
    rows += [(pattern, "", "matches no stream") for pattern in result.empty]
    rows += [("", stream, f"left out: {reason}") for stream, reason in sorted(result.left_out.items())]
    table("Inputs that match now", ("pattern", "stream", "use"), rows)


def _inspect_start(config: JobConfig, code: JobCode) -> tuple[JobModel | None, tuple[GuaranteeWarning, ...]]:
    """The job model, and the warnings about its topics; neither, with a warning, if a system does not answer.

    Raises the errors about inputs, changelogs and serdes.
    """
    from samzapy.admin.job_check import NotReachable, inspect_start, resolved
    from samzapy.errors import RetriableError, Unreachable

    try:
        return inspect_start(resolved(config), warn, code)
    except (NotReachable, RetriableError, Unreachable) as error:
        warn(f"the job model is left out: {error}")
        return None, ()


def _show_job(config: JobConfig) -> None:
    from samzapy.runner.spark.master import Master

    task, checkpoint = config.task, config.task.checkpoint
    where = "none" if checkpoint is None else checkpoint.path or f"a topic on {checkpoint.system}"
    often = "" if task.refresh_ms is None else f", and every {task.refresh_ms:,} ms"
    rows = [
        ("job", f"{config.name} (id {config.id})"),
        ("task class", task.task_class),
        ("guarantee", task.guarantee.value),
        ("inputs", ", ".join(map(str, (*task.inputs, *task.patterns)))),
        *((("new inputs", f"at a start{often}"),) if task.patterns else ()),
        ("commit every", f"{task.commit_ms:,} ms" if task.commit_ms > 0 else "only when asked for"),
        ("checkpoints", where),
        ("containers", str(config.container_count)),
        ("object caches", _caches(config)),
        ("Spark master", config.spark.master or Master.default(config.container_count, config.spark.conf).address),
    ]
    table("Job", ("", ""), rows)
    systems = [(name, settings.factory) for name, settings in config.systems.items()]
    table("Systems", ("system", "factory"), systems)
    streams = [(s.system_stream, *_serdes(s, "bytes"), s.offset_default) for s in config.streams.values()]
    table("Streams", ("stream", "key", "message", "starts at"), streams)
    stores = [
        (
            s.name,
            s.factory.rpartition(":")[2],
            *_serdes(s, "-"),
            s.changelog or _filled_from(s) or "none",
            "shared" if s.object_cache_size is None else f"{s.object_cache_size:,} objects",
        )
        for s in config.stores.values()
    ]
    table("Stores", ("store", "engine", "key", "value", "changelog", "cache"), stores)


def _serdes(of: StreamConfig | StoreConfig, default: str) -> tuple[str, str]:
    """The serdes of keys and values, each with the class that the job file names."""
    key = (of.key_serde or default, of.key_type)
    value = (of.msg_serde or default, of.msg_type)
    return " ".join(filter(None, key)), " ".join(filter(None, value))


def _caches(config: JobConfig) -> str:
    """The memory of a container for objects, and the stores that share it."""
    sharing = [store.name for store in config.stores.values() if store.object_cache_size is None]
    if not sharing:
        return "none by bytes"
    return f"{config.cache_max_bytes / 2**20:,.0f} MiB a container, shared by {', '.join(sharing)}"


def _filled_from(store: StoreConfig) -> str:
    """The streams that fill a store instead of a changelog."""
    if store.source is None:
        return ""
    streams = ", ".join(map(str, [*store.source.streams, *sorted(store.source.partitions)]))
    return f"{'replayed' if store.source.replayed else 'side inputs'}: {streams}"


def _show_model(model: JobModel) -> None:
    rows = [
        (container.id, task.name, ", ".join(map(str, sorted(task.ssps))))
        for container in model.containers
        for task in container.tasks
    ]
    table(
        f"Job model ({counted(len(rows), 'task')} in {counted(len(model.containers), 'container')})",
        ("container", "task", "reads"),
        rows,
    )


def _show_needs(config: JobConfig, model: JobModel, engines: Mapping[str, StoreSpec]) -> None:
    from samzapy.container.supervision.worker_process import files_needed, memory_needed

    if not model.containers:
        return
    largest = max(model.containers, key=lambda container: len(container.tasks))
    parts = memory_needed(config, largest, engines)
    whole = sum(part.size for part in parts)
    rows = [(part.use, f"{part.size / 2**20:,.1f}", part.reason) for part in parts]
    rows += [
        ("memory at the most", f"{whole / 2**20:,.1f}", "without the task's own objects"),
        ("open files", f"{files_needed(config, largest, engines):,}", "at the least: large stores have more tables"),
    ]
    of = f"the largest of {counted(len(model.containers), 'container')}: {counted(len(largest.tasks), 'task')}"
    table(f"What container {largest.id} needs, about ({of})", ("for", "MiB", "because of"), rows)
