"""The families of metrics, from their declarations, and the alert rules, from their file."""

from __future__ import annotations

from collections.abc import Iterator

import yaml  # type: ignore[import-untyped]

from docs.generator.markdown import cell, code, table
from samzapy.coordinator.views import OF_THE_DRIVER
from samzapy.metrics.dashboard import rules
from samzapy.metrics.families import PREFIX, Family, Kind, known_families


def metrics() -> str:
    """A table of the families that the driver serves, and one of those that each container serves."""
    at_containers = [family for family in known_families() if family not in OF_THE_DRIVER or family.name == "errors"]
    return (
        f"## Served by the driver\n\n{_table([*OF_THE_DRIVER])}\n"
        f"## Served by each container\n\n{_table(sorted(at_containers, key=lambda family: family.name))}"
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
