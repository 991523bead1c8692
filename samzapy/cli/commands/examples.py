"""`samzapy examples`: complete jobs for common problems, to be copied."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.resources import files
from itertools import takewhile
from pathlib import Path

import click

from samzapy.cli.output import JSON, PARENT, new_folder, table
from samzapy.errors import ConfigError

#: The folders of the package `samzapy.examples` with job files.
_FOLDERS = ("", "gallery", "flights")
#: Programs that belong to an example, besides the modules that its job file names.
_PROGRAMS = {"flights": ("flights.delays_by_hour", "flights.planes_by_batch"), "shopper-features": ("gallery.look_up",)}
#: Names of job files, as their comments have them, remarks behind a command, and names of modules.
_JOB = re.compile(r"configs/(?:gallery/)?([\w-]+)\.properties")
_REMARK = re.compile(r"\s{2,}\(.*\)$")
_MODULE = re.compile(r"samzapy\.examples\.((?:\w+\.)*)(\w+):")


def _job_files() -> Mapping[str, Path]:
    """The job files of the examples by name."""
    home = Path(str(files("samzapy.examples")))
    return {path.stem: path for folder in _FOLDERS for path in sorted((home / folder).glob("*.properties"))}


@click.group()
def examples() -> None:
    """List and copy complete jobs for common problems.

    The page "Gallery" of the documentation goes through them.
    """


@examples.command("list")
@JSON
def list_examples() -> None:
    """List the examples with what they do."""
    rows = [(name, _first_sentence(path.read_text("utf-8"))) for name, path in _job_files().items()]
    table("Examples", ("name", "what it does"), rows)


def _first_sentence(job: str) -> str:
    """Of the comment at the top of a job file."""
    lines = (line.removeprefix("#").strip() for line in job.splitlines())
    return " ".join(takewhile(bool, lines)).partition(". ")[0].rstrip(".")


@examples.command()
@click.argument("name")
@PARENT
def copy(name: str, parent: Path) -> None:
    """Make the folder NAME with the job file and the code of an example, to be changed.

    The comment at the top of the job file has the commands. The examples about flights read a package: pip install
    'samzapy[demo]'.
    """
    known = _job_files()
    if name not in known:
        raise ConfigError.of("NAME", name, f"expected one of {', '.join(known)}")
    # An example may load its input with the job file of another one.
    names = {name, *_JOB.findall(known[name].read_text("utf-8"))}
    texts = {f"{item}.properties": known[item].read_text("utf-8") for item in sorted(names)}
    home = Path(str(files("samzapy.examples")))
    modules = {f"{package}{module}" for text in texts.values() for package, module in _MODULE.findall(text)}
    copies = {file: _MODULE.sub(r"\2:", _JOB.sub(r"\1.properties", text)) for file, text in texts.items()}
    for module in [*sorted(modules), *_PROGRAMS.get(name, ())]:
        path = home / f"{module.replace('.', '/')}.py"
        copies[path.name] = path.read_text("utf-8")
    folder = new_folder(parent, name)
    for file, text in copies.items():
        (folder / file).write_text(text, "utf-8")
    click.echo(f"copied to {folder}: {', '.join(copies)}; now:\n  cd {folder}")
    head = copies[f"{name}.properties"].partition("\n\n")[0].splitlines()
    for line in head:
        if line.startswith("#   ") and not line.lstrip("# ").startswith("--config"):
            click.echo(f"  {_REMARK.sub('', line[4:])}")
