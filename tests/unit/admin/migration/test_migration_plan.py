"""What a store is migrated from and to: from the checkpoints, the job file and the command."""

import pytest

from samzapy.admin.migration.plan import StoreForm, plan_migration
from samzapy.api.checkpoint import Checkpoint
from samzapy.config.loader import load_job
from samzapy.errors import ConfigError

JOB = {
    "job.name": "planned",
    "task.class": "some.module:Task",
    "task.inputs": "k.in",
    "systems.k.samza.factory": "memory",
    "serializers.registry.own.class": "some.module:OwnSerde",
    "serializers.registry.other.class": "some.module:OwnSerde",
    "stores.s.factory": "rocksdb",
    "stores.s.key.serde": "string",
    "stores.s.msg.serde": "json",
    "stores.s.changelog": "k.log",
}
TYPED = {"stores.s.msg.type": "some.module:Thing"}


def plan(recorded=("string", "long"), keys=None, source=None, target=None, convert=""):
    config = load_job({**JOB, **(keys or {})})
    committed = [None, *(Checkpoint({}, serdes={"s": pair}) for pair in [recorded] if pair)]
    return plan_migration(config, config.stores["s"], (source or {}, target or {}, convert), None, committed)


def problems(*arguments, **keys):
    with pytest.raises(ConfigError) as caught:
        plan(*arguments, **keys)
    return [str(problem) for problem in caught.value.problems]


def test_by_default_the_checkpoints_say_from_what_and_the_job_file_to_what():
    made = plan()
    assert (made.source, made.target) == (
        StoreForm("string", None, "long", None),
        StoreForm("string", None, "json", None),
    )
    assert made.serdes == ("string", "json")
    assert (made.keys_stay, made.values_stay) == (True, False)


def test_the_command_may_name_other_serdes_and_classes():
    made = plan(keys=TYPED, target={"msg.serde": "msgpack"})
    # The class of the job file is that of its own serde.
    assert made.target == StoreForm("string", None, "msgpack", None)
    made = plan(("string", "json"), keys=TYPED, source={"msg.type": "some.module:Old"})
    assert (made.source.msg_type, made.target.msg_type) == ("some.module:Old", "some.module:Thing")


def test_old_documents_are_read_as_the_new_class_unless_a_function_makes_it():
    assert plan(("string", "msgpack"), keys=TYPED).source.msg_type == "some.module:Thing"
    assert plan(("string", "msgpack"), keys=TYPED, convert="some.module:function").source.msg_type is None


def test_the_name_of_a_recorded_serde_is_the_job_files():
    assert plan(("string", "some.module:OwnSerde"), source={"msg.serde": "own"}).source.msg_serde == "own"
    (said,) = problems(("string", "some.module:OwnSerde"))
    assert said.endswith("the store was written with some.module:OwnSerde, which is own or other in the job file")
    (said,) = problems(("string", "some.module:Gone"))
    assert "--from msg.serde: is required: the store was written with some.module:Gone, and no serde" in said


def test_what_no_checkpoint_says_the_command_has_to_say():
    assert [text.split(":")[0] for text in problems(None)] == ["--from key.serde", "--from msg.serde"]
    assert plan(None, source={"key.serde": "string", "msg.serde": "long"}).source.msg_serde == "long"


def test_all_problems_are_named_together():
    said = problems(source={"key.serde": "strin", "msg.serde": "long", "msg.type": "a:B"}, target={"msg.serde": "jsn"})
    assert [text.split(":")[0] for text in said] == ["--from key.serde", "--from msg.type", "--to msg.serde"]
    assert "did you mean string?" in said[0]
    assert "serde long takes no class, got 'a:B'" in said[1]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"source": {"msg.serd": "long"}}, "--from: expected key.serde, key.type, msg.serde, msg.type"),
        ({"source": {"msg.serde": "double"}}, "--from msg.serde: the store was written with long, got 'double'"),
        ({"target": {"msg.serde": "long"}}, "store 's': nothing changes: name the old serdes and classes"),
        ({"target": {"key.serde": "avro"}}, "--to key.serde: the id of a schema is part of its bytes"),
    ],
)
def test_a_plan_that_cannot_be_is_refused(asked, said):
    assert problems(**asked)[0].startswith(said)


def test_tasks_with_different_serdes_have_no_single_way():
    config = load_job(JOB)
    committed = [Checkpoint({}, serdes={"s": ("string", serde)}) for serde in ("long", "double")]
    with pytest.raises(ConfigError, match=r"different serdes \(string and double; string and long\)"):
        plan_migration(config, config.stores["s"], ({}, {}, ""), None, committed)
