"""The cells of the matrix: which versions are tried together, and how thoroughly.

A corner, the oldest or the newest of everything, runs the tests that start Spark. The cells between them run a job each
way.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_PROJECT = Path(__file__).parents[2] / "pyproject.toml"


@dataclass(frozen=True)
class Step:
    """A command in a folder of its own, with the programs of the environment: its last word on success is in the table.

    `command`: `{folder}` is the folder of the step, `{port}` a free port. `shows`: a text that the output must have.
    """

    name: str
    command: tuple[str, ...]
    shows: str = ""
    limit_s: float = 600.0


@dataclass(frozen=True)
class Cell:
    """`python`: the version, None for the one that runs the matrix, with its packages. `packages`: what pip is given
    beside samzapy. `environ`: variables of all steps."""

    name: str
    steps: tuple[Step, ...]
    python: str | None = None
    packages: tuple[str, ...] = ()
    environ: tuple[tuple[str, str], ...] = ()


#: What the chosen tests import.
TEST_PACKAGES = ("pytest>=8.3", "pytest-timeout>=2.3", "psycopg[binary]>=3.2", "pandas>=2", "pyarrow>=15")


def _tests(name: str, *files: str, only: str = "", limit_s: float = 1200.0) -> Step:
    chosen = ("-k", only) if only else ()
    command = ("python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--timeout=240", "--rootdir={root}")
    return Step(name, (*command, *chosen, *(f"{{root}}/tests/{file}" for file in files)), limit_s=limit_s)


DEMO = Step("demo", ("samzapy", "demo"), "336,776 flights, 8,255 cancelled")
#: Executors that are processes of their own, of another JVM than the driver's.
CLUSTER = Step(
    "cluster",
    (
        "sh",
        "-c",
        (
            "samzapy init hello >init.log && cd hello && "
            "exec samzapy run hello.properties --until-end --master 'local-cluster[2,1,1024]'"
        ),
    ),
    "1,000 messages",
)
BROKER = Step(
    "broker",
    (
        "sh",
        "-c",
        (
            "samzapy kafka start --folder k --port {port} && samzapy kafka status --folder k && "
            "samzapy kafka stop --folder k"
        ),
    ),
    "stopped",
    limit_s=600.0,
)

SHORT = (
    DEMO,
    CLUSTER,
    BROKER,
    _tests("frames", "integration/dataframe/test_dataframe_on_executors.py"),
    _tests("programs", "integration/spark/test_programs_on_spark.py", only="submit or session"),
)
THOROUGH = (
    DEMO,
    CLUSTER,
    BROKER,
    _tests("frames", "integration/dataframe/test_dataframe.py", "integration/dataframe/test_dataframe_on_executors.py"),
    _tests("programs", "integration/spark/test_programs_on_spark.py"),
    _tests("runner", "integration/spark/test_spark_runner.py", "integration/messages/test_schemas_on_spark.py"),
    _tests("kafka", "integration/dataframe/test_dataframe_on_kafka.py", "integration/systems/test_kafka_system.py"),
)
ON_A_BROKER = (
    BROKER,
    _tests(
        "system",
        "contract/system/test_system_contract.py",
        "contract/system/test_system_admin_contract.py",
        only="kafka",
    ),
    _tests("transactions", "contract/system/test_system_transactions_contract.py", only="kafka"),
    _tests("clients", "integration/systems/test_kafka_system.py", "integration/systems/test_producing_on_kafka.py"),
)


def _spark(python: str, spark: str, newer: str, steps: tuple[Step, ...] = SHORT) -> Cell:
    return Cell(f"python-{python} spark-{spark}", steps, python, (f"pyspark>={spark},<{newer}", *TEST_PACKAGES))


def _lowest() -> Cell:
    """The oldest of each package that samzapy says it works with, and of Python."""
    needed = map(Requirement, tomllib.loads(_PROJECT.read_text(encoding="utf-8"))["project"]["dependencies"])
    oldest = {each.name: next(part.version for part in each.specifier if part.operator == ">=") for each in needed}
    packages = [f"{name}=={version}" for name, version in oldest.items()]
    return Cell("oldest packages", (DEMO, CLUSTER, *ON_A_BROKER), "3.10", (*packages, *TEST_PACKAGES))


def _kafka(version: str) -> Cell:
    return Cell(f"kafka-{version}", ON_A_BROKER, environ=(("SAMZAPY_KAFKA_VERSION", version),))


CELLS = (
    _spark("3.10", "3.5", "3.6", THOROUGH),
    _spark("3.10", "4.0", "4.1"),
    _spark("3.12", "3.5", "3.6"),
    _spark("3.12", "4.2", "5"),
    _spark("3.13", "4.2", "5", THOROUGH),
    _spark("3.14", "4.2", "5", THOROUGH),
    _lowest(),
    _kafka("3.9"),
    _kafka("4.0"),
    _kafka("4.4"),
)
