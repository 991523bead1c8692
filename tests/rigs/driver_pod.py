"""The pod of the driver in `configs/kubernetes`, as its manifest has it: the variables, the command, and what a kubelet
asks it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import urllib3

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")

FOLDER = Path(__file__).parents[2] / "configs" / "kubernetes"
_VARIABLE = re.compile(r"\$\((\w+)\)")


def documents() -> list[dict[str, Any]]:
    """Every manifest."""
    return [document for path in sorted(FOLDER.glob("*.yaml")) for document in yaml.safe_load_all(path.read_text())]


def of_kind(kind: str) -> dict[str, Any]:
    """The only manifest of a kind."""
    (found,) = (document for document in documents() if document["kind"] == kind)
    return found


def template() -> dict[str, Any]:
    """The driver's pod."""
    found: dict[str, Any] = of_kind("Deployment")["spec"]["template"]
    return found


def container() -> dict[str, Any]:
    """Its only container."""
    (found,) = template()["spec"]["containers"]
    return dict(found)


def variables(metadata: Mapping[str, str]) -> dict[str, str]:
    """The environment of the container. `metadata`: the fields of the pod that Kubernetes fills in, by path. Optional
    secrets are not there."""
    made = {}
    for entry in container()["env"]:
        source = entry.get("valueFrom", {})
        if "fieldRef" in source:
            made[entry["name"]] = metadata[source["fieldRef"]["fieldPath"]]
        elif "secretKeyRef" in source:
            assert source["secretKeyRef"]["optional"], entry["name"]
        else:
            made[entry["name"]] = entry["value"]
    return made


def command(metadata: Mapping[str, str]) -> list[str]:
    """What the container runs, with its variables filled in as Kubernetes does it: one that is not there stays as it
    is."""
    environ = variables(metadata)
    return [_VARIABLE.sub(lambda name: environ.get(name[1], name[0]), word) for word in container()["args"]]


def overrides(metadata: Mapping[str, str]) -> dict[str, str]:
    """The keys that the command adds to the job file."""
    words = command(metadata)
    pairs = [words[at + 1] for at, word in enumerate(words) if word == "--config"]
    assert words[:3] == ["samzapy", "run", "/opt/job/page-views.properties"]
    assert len(words) == 3 + 2 * len(pairs)
    return dict(pair.split("=", 1) for pair in pairs)


def asked(probe: str, host: str, ports: Mapping[str, int]) -> int | None:
    """The status with which the pod answers a probe, as a kubelet asks: by address, and with any certificate; None
    without an answer."""
    found = container()[probe]
    http = found["httpGet"]
    url = f"{http['scheme'].lower()}://{host}:{ports[http['port']]}{http['path']}"
    with urllib3.PoolManager(cert_reqs="CERT_NONE", retries=False, timeout=found.get("timeoutSeconds", 1)) as pool:
        try:
            return pool.request("GET", url).status
        except urllib3.exceptions.HTTPError:
            return None
