"""The text of a job file, and the references in its values."""

import pytest

from samzapy.config.loader import load_job
from samzapy.config.reading.properties import read
from samzapy.errors import ConfigError


@pytest.fixture
def write(tmp_path):
    def write_bytes(data):
        path = tmp_path / "job.properties"
        path.write_bytes(data)
        return path

    return write_bytes


def test_comments_separators_escapes_and_continuations_are_javas(write):
    path = write(
        b"# a comment\n! another\n\na=1\nb : 2\nc 3\nd\\ e=4\\\n    5\n"
        b"  f = a\\tb\\u00e9  \ng=\ncaf\xc3\xa9=ol\xc3\xa9\n"
    )
    assert read(path).values == {
        "a": "1",
        "b": "2",
        "c": "3",
        "d e": "45",
        "f": "a\tb\u00e9",
        "g": "",
        "caf\u00e9": "ol\u00e9",
    }


def test_a_byte_order_mark_crlf_and_trailing_blanks_do_not_count(write):
    assert read(write(b"\xef\xbb\xbfa=1 \r\nb=true\t\r\n")).values == {"a": "1", "b": "true"}


def test_the_last_of_two_equal_keys_counts_and_both_lines_are_named(write):
    path = write(b"a=1\\\n2\n# x\na=3\n")
    found = read(path)
    assert found.values == {"a": "3"}
    assert found.warnings == (f"a: set twice in {path} (lines 1 and 4); the last one counts",)


def test_a_key_set_twice_is_a_problem_when_strict(write):
    path = write(b"a=1\na=3\n")
    found = read(path, strict=True)
    assert [str(problem) for problem in found.problems] == [f"a: set twice in {path} (lines 1 and 2)"]
    assert not found.warnings


PEM = "-----BEGIN PRIVATE KEY-----\nMIIEvAIBADANBgkqhkiG9w0BAQEFAASC\nhunter2/abc+hunter2\n-----END PRIVATE KEY-----\n"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"a=1\nb=\xe9\n", " line 2: expected UTF-8, got byte 0xe9"),
        (b"a=1\n\nb=\\u00zz\n", " line 3: expected \\uXXXX, got \\u00zz"),
    ],
)
def test_text_that_cannot_be_read_names_file_and_line(write, data, reason):
    path = write(data)
    with pytest.raises(ConfigError) as caught:
        load_job(path)
    assert str(caught.value) == f"config: {path}{reason}"


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ConfigError) as caught:
        load_job(tmp_path / "none.properties")
    assert str(caught.value) == f"config: file not found: {tmp_path / 'none.properties'}"


def test_a_directory_is_not_a_file(tmp_path):
    with pytest.raises(ConfigError) as caught:
        load_job(str(tmp_path))
    assert str(caught.value) == f"config: {tmp_path}: cannot read (Is a directory)"


def test_variables_and_other_keys_are_put_in_anywhere_in_a_value(load):
    config = load({"job.id": "${env:STAGE}-${my.number}", "my.number": "7"}, {"STAGE": "test"})
    assert config.id == "test-7"
    assert config.raw["job.id"] == "${env:STAGE}-${my.number}"
    assert config.resolved["job.id"] == "test-7"


def test_a_missing_variable_names_key_and_variable_and_hides_no_other_problem(problems):
    assert problems({"job.name": "${env:NOPE}", "task.commit.ms": "x"}) == [
        "job.name: environment variable NOPE is not set",
        "task.commit.ms: expected an integer, got 'x'",
    ]


def test_a_recursive_reference_shows_its_circle(problems):
    found = problems({"a": "${b}", "b": "${c}", "c": "${b}"})
    assert found == [
        "a: recursive reference: b -> c -> b",
        "b: recursive reference: b -> c -> b",
        "c: recursive reference: c -> b -> c",
    ]


def test_other_schemes_and_missing_keys_are_refused(problems):
    assert problems({"a": "${file:/etc/passwd}", "b": "${no.such}", "c": "${}"}) == [
        "a: expected ${env:NAME} or ${other.key}, got ${file:/etc/passwd}",
        "b: reference ${no.such}: key no.such is not set",
        "c: expected ${env:NAME} or ${other.key}, got ${}",
    ]


def test_a_chain_of_references_may_be_long_but_not_endless(load, problems):
    def chain(length):
        return {f"x{number}": f"${{x{number + 1}}}" for number in range(length)} | {f"x{length}": "end"}

    assert load(chain(90)).resolved["x0"] == "end"
    assert problems(chain(160))[0] == "x0: expected a chain of at most 100 references, got a longer one from x0"


def test_a_key_alone_on_its_line_is_a_problem_without_its_text(write):
    with pytest.raises(ConfigError) as caught:
        load_job(write(b"job.name=a\nsystems.k.consumer.ssl.key.pem=first\nsecond.line.of.a.secret\n"))
    message = "expected key=value (key= for an empty value), or a backslash at the end of the line before"
    assert f"line 3: {message}" in str(caught.value)
    assert "second" not in str(caught.value)
