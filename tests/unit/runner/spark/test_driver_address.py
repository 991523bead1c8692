"""The address at which executors reach the driver, by job file, machine and master."""

import socket

import pytest
from rigs.store_rig import SMALLEST

from samzapy.config.loader import load_job
from samzapy.errors import EnvironmentFailure
from samzapy.runner.spark.master import Master, coordinator_host


@pytest.fixture
def named(monkeypatch):
    """Has this machine's name lead to an address, or nowhere."""

    def name(address):
        def resolve(_):
            if address is None:
                raise socket.gaierror(-2, "Name or service not known")
            return address

        monkeypatch.setattr(socket, "getfqdn", lambda: "box")
        monkeypatch.setattr(socket, "gethostbyname", resolve)

    return name


def host(master, **keys):
    given = {key.replace("_", "."): value for key, value in keys.items()}
    return coordinator_host(load_job({**SMALLEST, **given}, environ={}).spark, Master.parse(master))


def test_executors_on_this_machine_use_loopback():
    assert host("local[2,4]") == host("local-cluster[2,1,1024]") == "127.0.0.1"


def test_what_the_job_file_says_wins_and_then_the_host_of_sparks_driver(named):
    named("10.0.0.7")
    said = {"job_spark_conf_spark_driver_host": "10.0.0.8"}
    assert host("spark://master:7077", **said, job_spark_coordinator_host="10.0.0.9") == "10.0.0.9"
    assert host("spark://master:7077", **said) == "10.0.0.8"
    assert host("spark://master:7077") == host("yarn") == "10.0.0.7"


@pytest.mark.parametrize("address", ["127.0.1.1", None])
@pytest.mark.parametrize(
    "master",
    [
        "spark://127.0.0.1:7077",
        "spark://127.0.0.1:7077,127.0.0.2:7077",
        "k8s://https://127.0.0.1",
        "k8s://127.0.0.1:6443",
    ],
)
def test_a_machine_whose_name_says_nothing_is_found_on_its_way_to_the_master(named, address, master):
    named(address)
    assert host(master) == "127.0.0.1"


@pytest.mark.parametrize(
    "master", ["yarn", "spark://255.255.255.255:7077", "spark://a..b:7077", "spark://127.0.0.1:99999"]
)
@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("127.0.1.1", "this machine's name box resolves to 127.0.1.1, which executors cannot reach"),
        (None, "cannot resolve this machine's name box"),
    ],
)
def test_without_any_way_to_tell_the_key_is_asked_for(named, master, address, told):
    named(address)
    with pytest.raises(EnvironmentFailure) as caught:
        host(master)
    assert str(caught.value) == f"{told}: set job.spark.coordinator.host"
