"""`samzapy init`: a project that runs, to be changed into one's own."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.argument("name")
@click.option(
    "--dir",
    "parent",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    default=Path(),
    help="Where the project's folder is made; default here.",
)
def init(name: str, parent: Path) -> None:
    """Create the folder NAME with a task, its job file, its tests and some input.

    NAME becomes the task's module, so it is 1 to 40 of a-z 0-9 _, and no module that Python has already. Nothing that
    exists is overwritten.
    """
    from samzapy.cli.project import create_project

    folder, messages = create_project(name, parent)
    click.echo(f"created {folder}, with {messages} messages in local.{name}-input; now:")
    for command in (
        f"cd {folder}",
        "pytest",
        f"samzapy run {name}.properties --until-end",
        f"samzapy topic read local.{name}-counts --job {name}.properties",
    ):
        click.echo(f"  {command}")
