"""Whatever stands in a job file, the answer is a job or a list of problems."""

from hypothesis import given, settings
from hypothesis import strategies as st

from samzapy.config.known_keys import ALL_KEYS
from samzapy.config.loader import load_job
from samzapy.errors import ConfigError

NAMES = {"system": "k", "stream": "in", "store": "s", "serde": "json", "reporter": "r", "physical": "in"}
KEYS = [place.replace("*", "x") for key in ALL_KEYS for place in key.places(**NAMES)]
SMALLEST = {
    "job.name": "j",
    "task.class": "a:B",
    "task.inputs": "k.in",
    "systems.k.samza.factory": "memory",
    "stores.s.factory": "inmemory",
    "stores.s.key.serde": "string",
    "stores.s.msg.serde": "string",
}
VALUES = st.text(max_size=20) | st.sampled_from(
    [
        "",
        "0",
        "-1",
        "true",
        "none",
        "k",
        "k.in",
        "in",
        "k.in#[0-1]",
        "json",
        "kafka",
        "${job.name}",
        "${env:X}",
        "${",
        "1e9",
    ]
)
PASSED_ON = [
    key
    for key in KEYS
    if key.startswith(("systems.k.consumer.", "systems.k.producer.", "stores.s.rocksdb."))
    and not key.endswith(".ttl.ms")
]


def problems_or_job(source, overrides=None, **environ):
    """(problems, None) or ((), job); anything else that is raised goes up."""
    try:
        return (), load_job(source, overrides, environ)
    except ConfigError as error:
        return error.problems or ("none",), None


@settings(max_examples=300)
@given(st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=6))
def test_any_values_give_a_job_or_problems_each_with_a_key_and_a_line(changes):
    problems, job = problems_or_job({**SMALLEST, **changes}, X="y")
    assert all(problem.key and problem.message and "\n" not in problem.message for problem in problems)
    if job is not None:
        assert problems_or_job(job.raw, X="y") == ((), job)


@settings(max_examples=200)
@given(st.binary(max_size=200))
def test_any_bytes_give_a_job_or_problems(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("any") / "job.properties"
    path.write_bytes(data)
    problems, job = problems_or_job(path, SMALLEST)
    assert bool(problems) == (job is None)


@settings(max_examples=100)
@given(st.sampled_from(PASSED_ON), st.text("abcdefghij", min_size=12, max_size=20))
def test_a_secret_that_is_passed_on_never_shows(key, secret):
    _, job = problems_or_job({**SMALLEST, key: "${env:THE_PASSWORD}"}, THE_PASSWORD=secret)
    assert secret in job.resolved.values()
    assert secret not in repr(job)
    assert secret not in repr(job.resolved)
