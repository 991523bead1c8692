"""The families of metrics, from their declarations, and the alert rules, from their file."""

from __future__ import annotations

from collections.abc import Iterator

import yaml  # type: ignore[import-untyped]

from docs.generator.markdown import cell, code, table
from samzapy.metrics.dashboard import rules
from samzapy.metrics.families import PREFIX, Family, Kind, known_families
from samzapy.metrics.series import OF_THE_JOB


def metrics() -> str:
    """A table of the job's families, and one of the containers', the tasks' and the stores'."""
    return (
        f"## Of the job\n\n{_table([*OF_THE_JOB])}\n"
        f"## Of containers, tasks, stores and clients\n\n{_table(sorted(known_families(), key=lambda each: each.name))}"
    )


def alerts() -> str:
    """A section for each alert rule: when it fires, and what to do."""
    return "\n".join(_alerts())


def _alerts() -> Iterator[str]:
    for group in yaml.safe_load(rules())["groups"]:
        for rule in group["rules"]:
            lasting = f", for {rule['for']}" if "for" in rule else ""
            yield f"## {rule['alert']}\n"
            yield f"{rule['labels']['severity'].capitalize()}{lasting}:\n\n```\n{rule['expr'].strip()}\n```\n"
            yield f"{cell(rule['annotations']['description'].strip())}\n"


def _table(families: list[Family]) -> str:
    rows = [(code(_name(each)), each.kind.value, cell(each.help)) for each in families]
    return table(("name", "type", "meaning"), rows)


def _name(family: Family) -> str:
    return PREFIX + family.name + ("_total" if family.kind is Kind.COUNTER else "")
