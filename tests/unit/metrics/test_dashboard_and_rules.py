"""The dashboard and the alert rules name metrics that are exported."""

import json
import re

import pytest
from click.testing import CliRunner

from docs.generator.metrics import alerts as generated
from samzapy.cli.commands.keys import metrics
from samzapy.coordinator.views import OF_THE_DRIVER
from samzapy.metrics.dashboard import dashboard, expressions, rules
from samzapy.metrics.families import known_families

_METRIC = re.compile(r"samzapy_\w+")


def exported():
    return {name for family in (*known_families(), *OF_THE_DRIVER) for name in family.sample_names}


@pytest.mark.parametrize(("lines", "least"), [(expressions(), 30), (rules().splitlines(), 10)], ids=["panels", "rules"])
def test_every_metric_of_the_dashboard_and_the_rules_is_exported(lines, least):
    named = {name for line in lines if not line.startswith("#") for name in _METRIC.findall(line)}
    assert len(named) > least
    assert named <= exported(), named - exported()


def test_every_alert_says_what_to_do_and_has_its_line_in_the_docs():
    yaml = pytest.importorskip("yaml")
    alerts = [rule for group in yaml.safe_load(rules())["groups"] for rule in group["rules"]]
    assert len(alerts) > 10
    runbook = generated()
    for rule in alerts:
        assert rule["labels"]["severity"] in {"critical", "warning", "info"}, rule
        assert "{{ $labels.job }}" in rule["annotations"]["summary"], rule
        assert rule["annotations"]["description"].endswith("."), rule
        assert f"## {rule['alert']}\n" in runbook


def test_panels_do_not_overlap():
    taken = set()
    for panel in dashboard()["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells


@pytest.mark.parametrize(
    ("command", "holds"), [("dashboard", '"title": "samzapy"'), ("rules", "alert: SamzapyContainerDown")]
)
def test_both_are_printed_by_a_command(command, holds):
    result = CliRunner().invoke(metrics, [command])
    assert result.exit_code == 0, result.output
    assert holds in result.output
    if command == "dashboard":
        assert json.loads(result.output)["panels"]
