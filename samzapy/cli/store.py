"""`samzapy store`: what the stores of a job hold, and local stores made anew."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from itertools import islice
from pathlib import Path
from typing import Any

import click

from samzapy.cli.contents import Question, asked
from samzapy.cli.output import table
from samzapy.cli.pairs import pairs
from samzapy.errors import EnvironmentFailure, SamzapyError

_FORMATS = click.Choice(["json", "text"])


def _question(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the arguments and options that say which store, and from where; the command gets them as `question`."""

    @click.argument("job", type=click.Path(path_type=Path), metavar="JOB.properties")
    @click.argument("store", metavar="STORE")
    @click.option("--config", "-c", "texts", multiple=True, metavar="KEY=VALUE", help="Override a key of the job file.")
    @click.option("--partition", "partitions", type=click.IntRange(0), multiple=True, help="Only this one; repeatable.")
    @click.option(
        "--local",
        type=click.Path(path_type=Path),
        metavar="DIR",
        help="Read the files below DIR, a store's or all stores' folder, instead of the changelog.",
    )
    @wraps(command)
    def with_question(
        *args: Any,
        job: Path,
        store: str,
        texts: tuple[str, ...],
        partitions: tuple[int, ...],
        local: Path | None,
        **options: Any,
    ) -> None:
        command(*args, question=Question(job, store, pairs(texts), partitions, local), **options)

    return with_question


def _bounds(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options that say which keys."""
    for option in (
        click.option("--to", "upper", metavar="KEY", help="Only keys before this one, in byte order."),
        click.option("--from", "lower", metavar="KEY", help="Only this key and those after it, in byte order."),
        click.option("--prefix", metavar="KEY", help="Only keys that start with this, for string and bytes keys."),
    ):
        command = option(command)
    return command


@click.group()
def store() -> None:
    """Look into the stores of a job, running or not, and make local stores anew.

    What is shown is what is committed, in key order: by default what the changelog says, which any machine can read. With
    --local it is what is on disk in a local store, at the time of its engine's last flush. Keys are given as text: a
    number for integer and long keys, JSON for structured ones.
    """


@store.command()
@_question
@click.argument("keys", nargs=-1, required=True, metavar="KEY...")
def get(question: Question, keys: tuple[str, ...]) -> None:
    """Print the entries of KEYs as lines of JSON; the exit code is 1 if one of them is absent."""
    with asked(question) as answer:
        found = list(answer.of_keys(keys))
        for line in map(answer.line, found):
            click.echo(line)
        absent = answer.absent(keys, found)
    if absent:
        raise SamzapyError(f"store '{question.store}' has no key {', '.join(map(repr, absent))}")


@store.command()
@_question
@_bounds
@click.option("--limit", type=click.IntRange(0), help="Stop after so many entries.")
@click.option("--format", "shape", type=_FORMATS, default="json", show_default=True, help="text: key, tab, value.")
def scan(question: Question, limit: int | None, shape: str, **bounds: str | None) -> None:
    """Print entries in key order: a line of JSON each, or key, tab, value."""
    with asked(question) as answer:
        shown = answer.line if shape == "json" else answer.text
        for entry in islice(answer.of_range(**bounds), limit):
            sys.stdout.write(shown(entry) + "\n")


@store.command()
@_question
@_bounds
def count(question: Question, **bounds: str | None) -> None:
    """Count entries, by changelog partition."""
    counts: dict[int, int] = {}
    with asked(question) as answer:
        for entry in answer.of_range(**bounds):
            counts[entry.partition] = counts.get(entry.partition, 0) + 1
    rows = [*sorted(counts.items()), ("all", sum(counts.values()))]
    table(f"Entries of store '{question.store}'", ("partition", "entries"), rows)


@store.command()
@_question
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE")
@_bounds
@click.option("--format", "shape", type=click.Choice(["json", "csv"]), help="Default: csv for *.csv, else json.")
@click.option("--overwrite", is_flag=True, help="Replace a file that exists.")
def export(question: Question, file: Path, shape: str | None, *, overwrite: bool, **bounds: str | None) -> None:
    """Write entries to FILE: lines of JSON, or CSV with a heading. The file appears when it is complete."""
    from samzapy.cli.exports import export_entries

    if file.exists() and not overwrite:
        raise EnvironmentFailure(f"{file}: exists already; --overwrite replaces it")
    kind = shape or ("csv" if file.suffix.lower() == ".csv" else "json")
    with asked(question) as answer:
        written = export_entries(answer, answer.of_range(**bounds), file, kind)
    click.echo(f"wrote {written:,} entries to {file}", err=True)


@store.command()
@click.argument("job", type=click.Path(path_type=Path), metavar="JOB.properties")
@click.argument("store", metavar="STORE")
@click.argument("directory", type=click.Path(path_type=Path), metavar="DIR")
@click.option("--config", "-c", "texts", multiple=True, metavar="KEY=VALUE", help="Override a key of the job file.")
@click.option("--task", "tasks", multiple=True, metavar="NAME", help="Only this task's part; repeatable.")
def rebuild(job: Path, store: str, directory: Path, texts: tuple[str, ...], tasks: tuple[str, ...]) -> None:
    """Restore a local store from its changelog into DIR, as a start of the job would.

    DIR may then become job.logged.store.base.dir: the job's start uses it and reads only what came after. A store that is
    there already is left alone, and that is an error.
    """
    from samzapy.cli.rebuilding import rebuild_store
    from samzapy.config.loader import load_job

    results = rebuild_store(load_job(job, pairs(texts)), store, directory, tasks)
    rows = [(task, f"{found.records:,}", f"{found.seconds:.2f}", path) for task, (found, path) in results.items()]
    table(f"Store '{store}' below {directory}", ("task", "records", "seconds", "directory"), rows)


@store.command()
@click.argument("job", type=click.Path(path_type=Path), metavar="JOB.properties")
@click.argument("stores", nargs=-1, metavar="[STORE]...")
@click.option("--config", "-c", "texts", multiple=True, metavar="KEY=VALUE", help="Override a key of the job file.")
@click.option("--take-over", is_flag=True, help="Also if a run that cannot be seen from here may be going on.")
def adopt(job: Path, stores: tuple[str, ...], texts: tuple[str, ...], *, take_over: bool) -> None:
    """Make what the changelogs of STOREs hold now the job's own state (of all stores, if none is named).

    A job refuses to start on a changelog that holds records it has not written, such as those of a job file that was
    copied with its changelogs. Find the other writer first; this says that its records are right.
    """
    from samzapy.config.loader import load_job
    from samzapy.runner.adoption import adopt as adopt_records

    for name, ends in adopt_records(load_job(job, pairs(texts)), stores, take_over=take_over).items():
        places = ", ".join(f"[{partition}]@{end}" for partition, end in sorted(ends.items()))
        click.echo(f"{name}: what its changelog holds before {places} is state of this job")
