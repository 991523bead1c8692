"""Keys nobody reads."""

import pytest

STORE = {"stores.s.factory": "rocksdb", "stores.s.key.serde": "string", "stores.s.msg.serde": "json"}
SLIPS = [
    ("task.comit.ms", "task.commit.ms"),
    ("taks.commit.ms", "task.commit.ms"),
    ("job.containers.count", "job.container.count"),
    ("stores.s.write.batchsize", "stores.s.write.batch.size"),
    ("stores.t.write.batch.size", "stores.s.write.batch.size"),
    ("store.s.factory", "stores.s.factory"),
    ("stores.s.rocksdb.block.size.byte", "stores.s.rocksdb.block.size.bytes"),
    ("systems.kafka.samza.factry", "systems.kafka.samza.factory"),
    ("systems.kafka.streams.page-views.samza.msg.sered", "systems.kafka.streams.page-views.samza.msg.serde"),
    ("streams.views.samza.offset.defualt", "streams.views.samza.offset.default"),
    ("metrics.reportes", "metrics.reporters"),
    ("container.cache.max.byte", "container.cache.max.bytes"),
]


@pytest.mark.parametrize(("slip", "meant"), SLIPS)
def test_a_misspelt_key_warns_with_the_nearest(load, slip, meant):
    config = load({**STORE, "streams.views.samza.system": "kafka", slip: "1"})
    assert config.warnings == (f"{slip}: unknown key; did you mean {meant}?",)


def test_strict_makes_unknown_keys_problems(problems):
    assert problems({"task.comit.ms": "1", "job.zzzz": "2"}, strict=True) == [
        "task.comit.ms: unknown key; did you mean task.commit.ms?",
        "job.zzzz: unknown key",
    ]


@pytest.mark.parametrize("key", ["flights.window", "my.own.key", "sensitive.api.key", "debug", "windows.size"])
def test_the_users_own_keys_are_left_alone(load, key):
    assert load({key: "1"}, strict=True).resolved[key] == "1"


def test_keys_of_plug_ins_that_are_not_ours_are_left_alone(load):
    config = load(
        {
            "systems.mine.samza.factory": "my.module:MyFactory",
            "systems.mine.url": "x",
            "stores.s.factory": "my.module:MyEngine",
            "stores.s.key.serde": "string",
            "stores.s.msg.serde": "json",
            "stores.s.depth": "3",
            "serializers.registry.avro.class": "my.module:Avro",
            "serializers.registry.avro.schema": "x",
        },
        strict=True,
    )
    assert config.stores["s"].properties == {"depth": "3"}
    assert config.systems["mine"].properties == {"url": "x"}


@pytest.mark.parametrize(
    "key",
    [
        "job.factory.class",
        "yarn.package.path",
        "task.callback.watermark.timeout.ms",
        "stores.s.backup.factories",
        "cluster-manager.container.memory.mb",
        "task.transactional.state.restore.enabled",
    ],
)
def test_keys_of_samza_without_effect_say_so_even_under_strict(load, key):
    (warning,) = load({**STORE, key: "1"}, strict=True).warnings
    assert warning.startswith(f"{key}: has no effect in samzapy: ")


@pytest.mark.parametrize(
    ("key", "neutral", "value", "remedy"),
    [
        ("job.elasticity.factor", "1", "2", "leave it out or set 1"),
        (
            "job.systemstreampartition.matcher.class",
            "",
            "org.apache.samza.system.RangeSystemStreamPartitionMatcher",
            "reads every partition",
        ),
        ("job.config.rewriters", "", "env", "write what the rewriter would"),
        (
            "job.config.loader.factory",
            "",
            "org.apache.samza.config.loaders.PropertiesConfigLoaderFactory",
            "start the job",
        ),
        ("systems.kafka.streams.page-views.samza.broadcast", "false", "true", "task.broadcast.inputs"),
    ],
)
def test_keys_of_samza_that_would_change_results_are_refused(load, problems, key, neutral, value, remedy):
    assert load({key: neutral}, strict=True).warnings == ()
    (found,) = problems({key: value})
    assert found.startswith(f"{key}: ")
    assert "not supported" in found
    assert remedy in found
