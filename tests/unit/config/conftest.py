"""The smallest job, and what is wrong with a changed one."""

import pytest

from samzapy.config.loader import load_job
from samzapy.errors import ConfigError

SMALLEST = {
    "job.name": "views",
    "task.class": "my.module:MyTask",
    "task.inputs": "kafka.page-views",
    "systems.kafka.samza.factory": "kafka",
}
STORE = {"stores.s.factory": "rocksdb", "stores.s.key.serde": "string", "stores.s.msg.serde": "json"}


@pytest.fixture
def load():
    """The smallest job with these keys changed (None: left out)."""

    def load_changed(changes=None, environ=None, **options):
        pairs = {**SMALLEST, **(changes or {})}
        return load_job({k: v for k, v in pairs.items() if v is not None}, environ=environ or {}, **options)

    return load_changed


@pytest.fixture
def problems(load):
    """The problems of the smallest job with these keys changed, one line each."""

    def problems_of(changes=None, environ=None, **options):
        with pytest.raises(ConfigError) as caught:
            load(changes, environ, **options)
        return [str(problem) for problem in caught.value.problems]

    return problems_of


@pytest.fixture
def store(load):
    """The one store of a job with these keys below `stores.s.` changed."""

    def store_of(changes=None, others=None):
        below = {f"stores.s.{key}": value for key, value in (changes or {}).items()}
        return load({**STORE, **(others or {}), **below}).stores["s"]

    return store_of


@pytest.fixture
def store_problems(problems):
    """The problems of a store with these keys below `stores.s.` changed."""

    def store_problems_of(changes, others=None):
        return problems({**STORE, **(others or {}), **{f"stores.s.{key}": value for key, value in changes.items()}})

    return store_problems_of
