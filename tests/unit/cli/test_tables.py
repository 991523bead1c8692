"""Tables without a terminal and with one, and JSON."""

import json
import os
import sys

import click
import numpy as np
import pytest
from click.testing import CliRunner
from rich.progress import Progress

from samzapy.cli.output import JSON, json_text, line_on, status_console, table


def test_without_a_terminal_columns_are_plain_and_never_cut(capsys):
    table("Streams", ("stream", "n"), [("x" * 200, 1), ("[red]y", 22)])
    assert capsys.readouterr().out == (
        f"Streams\n  stream{' ' * 194}  n\n  {'x' * 200}  1\n  [red]y{' ' * 194}  22\n\n"
    )


@pytest.mark.parametrize(
    ("columns", "rows"),
    [
        (("stream", "n"), [{"stream": "sys.in", "n": 1}, {"stream": "sys.out", "n": 2.5}]),
        (("", ""), {"sys.in": 1, "sys.out": 2.5}),
    ],
)
def test_with_the_option_json_each_table_is_a_line(columns, rows):
    @click.command()
    @JSON
    def show():
        table("Streams", columns, [("sys.in", 1), ("sys.out", 2.5)])
        table("Stores", ("store",), [])

    lines = [json.loads(line) for line in CliRunner().invoke(show, ["--json"]).stdout.splitlines()]
    assert lines == [{"table": "Streams", "rows": rows}, {"table": "Stores", "rows": []}]
    output = CliRunner().invoke(show).stdout
    assert (output[:8], output[-15:]) == ("Streams\n", "Stores\n  none\n\n")


def test_json_has_null_for_what_is_not_a_number_and_plain_numbers_for_those_of_libraries():
    given = {
        "a": [1.5, float("nan"), (float("-inf"), np.float64("inf"))],
        "b": np.float32(0.5),
        "c": np.int64(7),
        3: True,
    }
    assert json_text(given) == '{"a": [1.5, null, [null, null]], "b": 0.5, "c": 7, "3": true}'


def test_a_reader_of_standard_error_that_has_gone_ends_nothing(monkeypatch):
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w", buffering=1) as unread:
        monkeypatch.setattr(sys, "stderr", unread)
        console = status_console()
        with Progress(console=console) as progress:
            progress.add_task("going on")
            line_on(console, "a line that nobody reads")
        line_on(console, "another one")
        print("what the user's code prints", file=unread, flush=True)


def test_a_full_disk_below_standard_error_ends_nothing(monkeypatch):
    with open("/dev/full", "w", buffering=1) as full:  # noqa: PTH123  # a device
        monkeypatch.setattr(sys, "stderr", full)
        line_on(status_console(), "a line that nothing takes")
        monkeypatch.undo()
        os.dup2(os.open(os.devnull, os.O_WRONLY), full.fileno())


def test_a_process_without_standard_error_shows_nothing(monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    console = status_console()
    line_on(console, "a line for nobody")
    assert not console.is_terminal
