"""`samzapy store`: show, count and export entries, rebuild local stores, adopt foreign records, copy
stores."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial, wraps
from itertools import islice
from pathlib import Path
from typing import Any

import click

from samzapy.admin.store_queries import Question, StoreEntries, store_entries
from samzapy.cli.output import (
    FILE,
    JOB,
    JSON,
    OVERRIDES,
    TAKE_OVER,
    Bars,
    Command,
    answers_by_exit_code,
    job_file,
    pairs,
    table,
    wait_for_a_run,
    warn,
)
from samzapy.config.job import JobConfig
from samzapy.errors import EnvironmentFailure, SamzapyError
from samzapy.storage.inspection import Entry


def _question(command: Command) -> Command:
    """Adds the arguments and options that name a store and where to read it; the command gets them as `question`."""

    @job_file
    @click.argument("store", metavar="STORE")
    @click.option(
        "--partition", "partitions", type=click.IntRange(0), multiple=True, help="Only this partition; repeatable."
    )
    @click.option(
        "--local",
        type=FILE,
        metavar="DIR",
        help="Read the files below DIR, a store's or all stores' folder, instead of the changelog.",
    )
    @wraps(command)
    def with_question(
        *args: Any, config: JobConfig, store: str, partitions: tuple[int, ...], local: Path | None, **options: Any
    ) -> None:
        if partitions and local is not None:
            message = "--partition is for the changelog; with --local, name the folder of one task's store"
            raise click.UsageError(message)
        command(*args, question=Question(config, store, partitions, local), **options)

    return with_question


#: Selects the entries of a store.
_Selection = Callable[[StoreEntries], Iterator[Entry]]


def _selecting(command: Command) -> Command:
    """Adds the options that select keys; the command gets the `selected` entries of a store by a call."""

    @click.option("--prefix", metavar="KEY", help="Only keys with this prefix, for string and bytes keys.")
    @click.option("--from", "lower", metavar="KEY", help="Only keys from this one on, in byte order.")
    @click.option("--to", "upper", metavar="KEY", help="Only keys before this one, in byte order.")
    @wraps(command)
    def with_selection(*args: Any, prefix: str | None, lower: str | None, upper: str | None, **options: Any) -> None:
        if prefix is not None and (lower is not None or upper is not None):
            raise click.UsageError("--prefix already defines a range; leave out --from and --to")

        def selected(entries: StoreEntries) -> Iterator[Entry]:
            return entries.of_range(lower, upper) if prefix is None else entries.of_prefix(prefix)

        command(*args, selected=selected, **options)

    return with_selection


def _entries(question: Question) -> AbstractContextManager[StoreEntries]:
    return store_entries(question, partial(Bars, "records"), partial(click.echo, err=True))


@click.group()
def store() -> None:
    """Show the stores of a job, running or not. Rebuild local stores, and copy stores to other changelogs.

    The commands show committed entries in key order. By default they read the changelog, which any machine can reach.
    With --local they read the files of a local store, as of the last flush of its engine. Give keys as text: a number
    for integer and long keys, JSON for structured ones.
    """
    from samzapy.job.files import MOST, raise_limit

    # All partitions of a store are open at the same time, with at least six files each.
    raise_limit(MOST)


@store.command()
@_question
@click.argument("keys", nargs=-1, required=True, metavar="KEY...")
@JSON
@answers_by_exit_code()
def get(question: Question, keys: tuple[str, ...]) -> None:
    """Print the entries of KEYs as lines of JSON. The exit code is 1 if a key is absent."""
    with _entries(question) as entries:
        result = list(entries.of_keys(keys))
        for line in map(entries.line, result):
            click.echo(line)
        absent = entries.absent(keys, result)
    if absent:
        raise SamzapyError(f"store '{question.store}' has no key {', '.join(map(repr, absent))}")


@store.command()
@_question
@_selecting
@click.option("--limit", type=click.IntRange(0), help="Stop after this number of entries.")
@click.option(
    "--format",
    "shape",
    type=click.Choice(["json", "text"]),
    default="json",
    show_default=True,
    help="text: key, tab, value.",
)
@JSON
def scan(question: Question, limit: int | None, shape: str, selected: _Selection) -> None:
    """Print entries in key order: a line of JSON each, or key, tab, value."""
    with _entries(question) as entries:
        shown = entries.line if shape == "json" else entries.text
        for entry in islice(selected(entries), limit):
            sys.stdout.write(shown(entry) + "\n")


@store.command()
@JSON
@_question
@_selecting
def count(question: Question, selected: _Selection) -> None:
    """Count entries, by changelog partition."""
    counts: dict[int, int] = {}
    with _entries(question) as entries:
        for entry in selected(entries):
            counts[entry.partition] = counts.get(entry.partition, 0) + 1
    rows = [*sorted(counts.items()), ("all", sum(counts.values()))]
    table(f"Entries of store '{question.store}'", ("partition", "entries"), rows)


@store.command()
@_question
@click.argument("file", type=FILE, metavar="FILE")
@_selecting
@click.option("--format", "shape", type=click.Choice(["json", "csv"]), help="Default: csv for *.csv, else json.")
@click.option("--overwrite", is_flag=True, help="Replace an existing file.")
def export(question: Question, file: Path, shape: str | None, *, overwrite: bool, selected: _Selection) -> None:
    """Write entries to FILE, as lines of JSON or as CSV with a heading. The file appears when it is complete."""
    if file.exists() and not overwrite:
        raise EnvironmentFailure(f"{file}: exists already; --overwrite replaces it")
    kind = shape or ("csv" if file.suffix.lower() == ".csv" else "json")
    with _entries(question) as entries:
        written = entries.export(selected(entries), file, kind)
    click.echo(f"wrote {written:,} entries to {file}", err=True)


@store.command()
@job_file
@click.argument("store", metavar="STORE")
@click.argument("directory", type=FILE, metavar="DIR")
@click.option("--task", "tasks", multiple=True, metavar="NAME", help="Only this task's part; repeatable.")
def rebuild(config: JobConfig, store: str, directory: Path, tasks: tuple[str, ...]) -> None:
    """Restore a local store from its changelog into DIR, as a start of the job would.

    DIR can then become job.logged.store.base.dir: the next start of the job uses it, and reads only newer records. If
    DIR already has the store, the command fails and changes nothing.
    """
    from samzapy.admin.store_queries import rebuild_store

    with Bars("records") as bars:
        results = rebuild_store(config, store, directory, tasks, bars)
    rows = [(task, f"{result.records:,}", f"{result.seconds:.2f}", path) for task, (result, path) in results.items()]
    table(f"Store '{store}' below {directory}", ("task", "records", "seconds", "directory"), rows)


@store.command()
@job_file
@click.argument("stores", nargs=-1, metavar="[STORE]...")
@click.option("--take-over", is_flag=True, help="Proceed even if an unseen run may be active on another machine.")
def adopt(config: JobConfig, stores: tuple[str, ...], *, take_over: bool) -> None:
    """Accept all current records in the changelogs of STOREs as the job's own state (without STOREs: of all stores).

    A job refuses to start on a changelog with records that it has not written, for example after its job file was
    copied together with the names of the changelogs. Find the other writer first, because this command declares its
    records valid.
    """
    from samzapy.admin.take_over import adopt as adopt_records

    result = adopt_records(config, stores, take_over=take_over)
    if not result:
        click.echo("no store of the job has a changelog yet: nothing to adopt")
    for name, ends in result.items():
        places = ", ".join(f"[{partition}]@{end}" for partition, end in sorted(ends.items()))
        click.echo(f"{name}: all records of its changelog before {places} are state of this job now")


@store.command()
@JOB
@click.argument("store", metavar="STORE")
@OVERRIDES
@click.option("--to", required=True, metavar="SYSTEM.STREAM", help="The new changelog.")
@click.option(
    "--set",
    "changes",
    metavar="KEY=VALUE",
    multiple=True,
    help="A key below stores.STORE with another value, such as msg.serde=json; repeatable.",
)
@click.option(
    "--convert", default="", metavar="MODULE:FUNCTION", help="A function from key and value to the new key and value."
)
@click.option("--overwrite", is_flag=True, help="Replace the entries that the new changelog has already.")
@TAKE_OVER
def copy(job: Path, store: str, overrides: tuple[str, ...], to: str, changes: tuple[str, ...], **how: Any) -> None:
    """Copy STORE to a new changelog, with other serdes, classes or entries. The job must not be running.

    The copy runs on the job's Spark (job.spark.master), by default on this machine. Without --convert each key and
    value is read with the old serde and class, and written with the new one. MODULE:FUNCTION gets both, and returns
    (key, value), or None to leave the entry out; entries stay in their partition. Until the copy is complete the job
    uses the old changelog; then its job file has to name the new one, with the keys that this command prints.
    """
    from samzapy.config.loader import load_job
    from samzapy.dataframe.copying import StoreCopy, copied_keys, copy_on_spark
    from samzapy.failpoints import arm_from_environment

    arm_from_environment(os.environ)
    keys = copied_keys(store, to, pairs(changes, "--set"))
    now, target = load_job(job, pairs(overrides)), load_job(job, {**pairs(overrides), **keys})
    request = StoreCopy(now, target, store, **how)
    written = copy_on_spark(request, wait_for_a_run)
    click.echo(f"copied {written.records:,} entries of store '{store}' to {to}")
    warn(f"set {', '.join(f'{key}={value}' for key, value in keys.items())} in the job file before its next start")
