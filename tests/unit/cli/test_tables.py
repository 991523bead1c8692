"""Tables without a terminal and with one."""

from samzapy.cli.output import table, warn


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
