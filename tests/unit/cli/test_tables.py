"""Tables without a terminal and with one, and JSON."""

import json
from pathlib import Path

import numpy as np

import samzapy.cli
from samzapy.cli.output import json_text, table, warn
from samzapy.metrics.columns import MetricColumns


def test_without_a_terminal_columns_are_plain_and_never_cut(capsys):
    table("Streams", ("stream", "n"), [("x" * 200, 1), ("[red]y", 22)])
    assert capsys.readouterr().out == (
        f"Streams\n  stream{' ' * 194}  n\n  {'x' * 200}  1\n  [red]y{' ' * 194}  22\n\n"
    )


def test_no_rows_are_none(capsys):
    table("Stores", ("store",), [])
    assert capsys.readouterr().out == "Stores\n  none\n\n"


def test_blank_columns_have_no_heading(capsys):
    table("Job", ("", ""), [("a", "b")])
    assert capsys.readouterr().out == "Job\n  a  b\n\n"


def test_on_a_terminal_there_is_a_frame_and_markup_stays_text(capsys, monkeypatch):
    import sys

    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    table("Streams", ("stream",), [("[red]y",)])
    output = capsys.readouterr().out
    assert "[red]y" in output
    assert "│" in output or "┃" in output


def test_a_warning_is_a_line_on_standard_error(capsys):
    warn("odd")
    assert capsys.readouterr().err == "warning: odd\n"


def test_json_has_null_for_what_is_not_a_number_and_plain_numbers_for_those_of_libraries():
    given = {
        "a": [1.5, float("nan"), (float("-inf"), np.float64("inf"))],
        "b": np.float32(0.5),
        "c": np.int64(7),
        3: True,
    }
    assert json_text(given) == '{"a": [1.5, null, [null, null]], "b": 0.5, "c": 7, "3": true}'


def test_json_of_a_mapping_that_is_no_dict_is_an_object():
    assert json.loads(json_text({"metrics": MetricColumns.of({"mine": {"rate": float("nan")}})})) == {
        "metrics": {"mine": {"rate": None}}
    }


def test_commands_write_json_in_one_way_only():
    folder = Path(samzapy.cli.__file__).parent
    assert [path.name for path in folder.rglob("*.py") if "json.dumps" in path.read_text()] == ["output.py"]
