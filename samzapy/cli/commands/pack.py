"""`samzapy pack`: pack the environment of a job's executors."""

from __future__ import annotations

from pathlib import Path

import click

_MB = 1_000_000


@click.command()
@click.argument("archive", type=click.Path(path_type=Path, dir_okay=False), metavar="ENV.tar.gz")
@click.option(
    "-r",
    "--requirements",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="The job's own packages, as pip reads them; they have to be installed here.",
)
@click.option(
    "--python",
    "interpreter",
    type=click.Path(path_type=Path),
    help="The Python on the executors' hosts; default: where this one is.",
)
def pack(archive: Path, requirements: Path | None, interpreter: Path | None) -> None:
    """Write ENV.tar.gz: samzapy, its dependencies and those of a job, in the versions installed here, without pyspark.

    Executors on other machines use it as their Python environment; the cluster brings Spark and a Python of this minor
    version. An archive of that name is replaced.
    """
    from samzapy.admin.pack import LEFT_OUT, default_interpreter
    from samzapy.admin.pack import pack as write

    packed = write(archive, requirements, interpreter)
    click.echo(f"{archive}: {packed.size / _MB:.0f} MB, {packed.unpacked / _MB:.0f} MB unpacked; with")
    click.echo(f"  {', '.join(f'{name} {version}' for name, version in packed.versions.items())}")
    click.echo(f"without {' and '.join(sorted(LEFT_OUT, reverse=True))}, on {interpreter or default_interpreter()}")
    click.echo(f"add to the job:\n  job.spark.archives={archive}#env")
    click.echo("  job.spark.conf.spark.pyspark.python=./env/bin/python")
