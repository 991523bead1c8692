"""The families of metrics, from their declarations."""

from __future__ import annotations

from docs.generator.markdown import cell, code, table
from samzapy.metrics.families import PREFIX, Family, Kind, known_families
from samzapy.metrics.series import OF_THE_JOB


def metrics() -> str:
    """A table of the job's families, and one of the containers', the tasks' and the stores'."""
    return (
        f"## Of the job\n\n{_table([*OF_THE_JOB])}\n"
        f"## Of containers, tasks, stores and clients\n\n{_table(sorted(known_families(), key=lambda each: each.name))}"
    )


def _table(families: list[Family]) -> str:
    rows = [(code(_name(each)), each.kind.value, cell(each.help)) for each in families]
    return table(("name", "type", "meaning"), rows)


def _name(family: Family) -> str:
    return PREFIX + family.name + ("_total" if family.kind is Kind.COUNTER else "")
