import pytest

from samzapy.errors import ConfigError
from samzapy.runner.spark.master import Master


@pytest.mark.parametrize(
    ("address", "slots", "on_this_machine"),
    [
        ("local", 1, True),
        ("local[3]", 3, True),
        ("local[4,2]", 4, True),
        ("local[ 4 , 2 ]", 4, True),
        ("local-cluster[2,3,1024]", 6, True),
        ("spark://host:7077", None, False),
        ("yarn", None, False),
        ("k8s://https://host:443", None, False),
    ],
)
def test_a_master_tells_its_slots_and_whether_it_is_on_this_machine(address, slots, on_this_machine):
    master = Master.parse(address)
    assert (master.slots, master.on_this_machine) == (slots, on_this_machine)


@pytest.mark.parametrize("address", ["", "locale", "local[x]", "local-cluster[2,1]", "http://host", "mesos://host"])
def test_another_address_is_refused_with_what_is_allowed(address):
    with pytest.raises(ConfigError, match=r"^job\.spark\.master: expected local\[N,F\]"):
        Master.parse(address)


def test_the_default_has_a_slot_for_each_container_and_four_tries():
    assert Master.default(3).address == "local[3,4]"


def test_endless_containers_beyond_the_slots_are_refused_with_all_numbers():
    with pytest.raises(ConfigError) as refused:
        Master.parse("local[1]").check_slots(4)
    assert "4 endless containers need 4 slots, local[1] has 1: 3 would never run" in str(refused.value)
    Master.parse("local[4]").check_slots(4)
    Master.parse("spark://host:7077").check_slots(4)


def test_standbys_are_refused_where_there_is_only_one_executor():
    with pytest.raises(ConfigError, match=r"job.spark.master: standby containers need other executors.*'local\[4,4\]'"):
        Master.parse("local[4,4]").check_standbys(1)
    Master.parse("local[4,4]").check_standbys(0)
    Master.parse("local-cluster[2,1,1024]").check_standbys(1)
    Master.parse("spark://host:7077").check_standbys(1)
