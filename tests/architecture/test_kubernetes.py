"""The manifests for Kubernetes agree with the job file beside them, and with each other."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from samzapy.config.loader import load_job
from samzapy.coordinator.views import PROBES
from samzapy.runner.spark.master import PREFIX, Master, check_reach, coordinator_host, spark_settings

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")

FOLDER = Path(__file__).parents[2] / "configs" / "kubernetes"
JOB = FOLDER / "page-views.properties"
POD_IP = "10.1.2.3"
METADATA = {"status.podIP": POD_IP, "metadata.name": "page-views-5c", "metadata.namespace": "prod"}
#: Sizes of an executor, for which the operator has fields.
SIZES = ("instances", "cores", "memory", "memoryOverhead")
STATE = f"{PREFIX}spark.kubernetes.executor.volumes.persistentVolumeClaim.state."


def of_kind(kind: str) -> dict[str, Any]:
    """The only manifest of a kind."""
    (found,) = (
        document
        for path in FOLDER.glob("*.yaml")
        for document in yaml.safe_load_all(path.read_text())
        if document["kind"] == kind
    )
    return found


def template() -> dict[str, Any]:
    """The driver's pod."""
    return of_kind("Deployment")["spec"]["template"]


def container() -> dict[str, Any]:
    """Its only container."""
    (found,) = template()["spec"]["containers"]
    return found


def variables(metadata: Mapping[str, str]) -> dict[str, str]:
    """The environment of the container. `metadata`: the fields of the pod that Kubernetes fills in, by path. Optional
    secrets are not there."""
    made = {}
    for entry in container()["env"]:
        source = entry.get("valueFrom", {})
        if "secretKeyRef" in source:
            assert source["secretKeyRef"]["optional"], entry["name"]
        else:
            made[entry["name"]] = metadata[source["fieldRef"]["fieldPath"]] if source else entry["value"]
    return made


def command(metadata: Mapping[str, str]) -> list[str]:
    """What the container runs, with its variables filled in as Kubernetes does it: one that is not there stays as it
    is."""
    environ = variables(metadata)
    return [re.sub(r"\$\((\w+)\)", lambda name: environ.get(name[1], name[0]), word) for word in container()["args"]]


@pytest.fixture
def job():
    """The job file with the keys that the command adds to it."""
    words = command(METADATA)
    assert words[:3] == ["samzapy", "run", "/opt/job/page-views.properties"]
    assert set(words[3::2]) == {"--config"}
    return load_job(JOB, dict(pair.split("=", 1) for pair in words[4::2]), strict=True)


def test_the_job_file_with_the_drivers_keys_fits_executors_in_other_pods(job):
    assert job.warnings == ()
    assert check_reach(job) == ()
    master = Master.parse(job.spark.master).sized(job.spark.conf, job.container_count, 0)
    assert master.slots == job.container_count
    assert spark_settings(job, master, FOLDER)["spark.driver.host"] == POD_IP
    assert coordinator_host(job.spark, master) == POD_IP


def test_each_variable_of_the_command_is_set_for_the_pod(job):
    assert not [word for word in command(METADATA) if "$(" in word]
    assert variables(METADATA)["POD_IP"] == POD_IP
    assert job.spark.conf["spark.kubernetes.driver.pod.name"] == "page-views-5c"
    assert job.spark.conf["spark.kubernetes.namespace"] == "prod"


def test_the_page_is_reached_by_each_name_of_its_service(job):
    name = of_kind("Service")["metadata"]["name"]
    assert job.page_hosts == (name, f"{name}.prod", f"{name}.prod.svc", f"{name}.prod.svc.cluster.local")


def test_every_port_is_one_of_the_job_file(job):
    ports = {port["name"]: port["containerPort"] for port in container()["ports"]}
    assert ports == {
        "coordinator": job.spark.coordinator_port,
        "page": job.page_port,
        "spark-driver": int(job.spark.conf["spark.driver.port"]),
        "spark-blocks": int(job.spark.conf["spark.driver.blockManager.port"]),
    }
    for port in of_kind("Service")["spec"]["ports"]:
        assert port["port"] == ports[port["targetPort"]]


@pytest.mark.parametrize(
    ("probe", "path"), [("startupProbe", "/healthz"), ("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")]
)
def test_a_probe_asks_the_coordinator_by_tls_for_an_answer_without_a_token(probe, path, job):
    assert job.spark.coordinator_tls is None, "TLS is on with a master that is not on this machine"
    assert container()[probe]["httpGet"] == {"path": path, "port": "coordinator", "scheme": "HTTPS"}
    assert path in PROBES


def test_every_pod_has_more_time_to_end_than_the_job_needs(job):
    operator = of_kind("SparkApplication")["spec"]
    ends = [template()["spec"], of_kind("Pod")["spec"], operator["driver"], operator["executor"]]
    assert all(each["terminationGracePeriodSeconds"] * 1000 > job.task.shutdown_ms for each in ends)
    seconds = of_kind("Pod")["spec"]["terminationGracePeriodSeconds"]
    assert job.spark.conf["spark.kubernetes.executor.terminationGracePeriodSeconds"] == f"{seconds}s"


def test_every_selector_matches_the_labels_of_its_pods():
    labels = template()["metadata"]["labels"]
    assert of_kind("Deployment")["spec"]["selector"]["matchLabels"] == labels
    assert of_kind("Service")["spec"]["selector"] == labels
    operator = of_kind("SparkApplication")["spec"]
    assert operator["driver"]["labels"] == labels
    executors = of_kind("PodDisruptionBudget")["spec"]["selector"]["matchLabels"]
    assert executors == of_kind("Pod")["metadata"]["labels"] == operator["executor"]["labels"]
    assert executors != labels


def test_a_drain_takes_one_executor_and_a_driver_is_never_beside_another(job):
    kept = of_kind("PodDisruptionBudget")["spec"]["minAvailable"]
    assert kept == int(job.spark.conf["spark.executor.instances"]) - 1
    assert of_kind("Deployment")["spec"]["replicas"] == 1
    assert of_kind("Deployment")["spec"]["strategy"] == {"type": "Recreate"}


def test_the_drivers_account_exists_and_has_the_role():
    account = of_kind("ServiceAccount")["metadata"]["name"]
    assert template()["spec"]["serviceAccountName"] == account
    assert of_kind("SparkApplication")["spec"]["driver"]["serviceAccount"] == account
    binding = of_kind("RoleBinding")
    assert [subject["name"] for subject in binding["subjects"]] == [account]
    assert binding["roleRef"]["name"] == of_kind("Role")["metadata"]["name"]


def test_the_stores_are_on_the_volumes(job):
    folder = str(job.logged_store_base_dir)
    assert job.raw[f"{STATE}mount.path"] == folder
    (mount,) = container()["volumeMounts"]
    assert mount["mountPath"] == folder
    assert [volume["name"] for volume in template()["spec"]["volumes"]] == [mount["name"]]
    assert folder in (FOLDER / "Containerfile").read_text()


def test_driver_and_executors_have_one_image_with_the_operators_spark():
    (image,) = (entry["value"] for entry in container()["env"] if entry["name"] == "IMAGE")
    assert container()["image"] == image
    assert of_kind("Pod")["spec"]["containers"][0]["image"] == image
    operator = of_kind("SparkApplication")["spec"]
    assert operator["image"] == image
    assert f"ARG SPARK_VERSION={operator['sparkVersion']}\n" in (FOLDER / "Containerfile").read_text()


def test_the_operators_application_has_the_settings_of_the_job_file(job):
    """The template of the executors' pods is left out: the operator has fields for what is in it."""
    operator = of_kind("SparkApplication")["spec"]
    fields = {f"spark.executor.{name}": str(operator["executor"][name]) for name in SIZES}
    wanted = {
        key.removeprefix(PREFIX): value
        for key, value in load_job(JOB, strict=True).raw.items()
        if key.startswith(PREFIX)
    }
    assert wanted.pop("spark.kubernetes.executor.podTemplateFile") == "/opt/job/executor.yaml"
    assert operator["sparkConf"] | fields == wanted
