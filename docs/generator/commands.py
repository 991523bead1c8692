"""The commands of `samzapy`, from Click's declarations."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click

from docs.generator.markdown import cell, code, table
from samzapy.cli.main import cli


def commands() -> str:
    """A section for each command, those of a group below it."""
    context = click.Context(cli, info_name="samzapy", max_content_width=100)
    return "\n".join(_group(cli, context))


def _group(group: click.Group, context: click.Context) -> Iterator[str]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is None or command.hidden:
            continue
        inner = click.Context(command, info_name=name, parent=context)
        if isinstance(command, click.Group):
            yield f"## {inner.command_path}\n\n{_text(command)}\n"
            yield from _group(command, inner)
        else:
            level = "##" if context.parent is None else "###"
            yield f"{level} {inner.command_path}\n\n{_text(command)}\n"
            yield f"{_usage(command, inner)}\n{_options(command, inner)}"


def _text(command: click.Command) -> str:
    """The help text; paragraphs that Click leaves as they are stay as they are."""
    paragraphs = inspect.cleandoc(command.help or "").partition("\f")[0].split("\n\n")
    return "\n\n".join(_verbatim(part) if part.startswith("\b") else " ".join(part.split()) for part in paragraphs)


def _verbatim(paragraph: str) -> str:
    return "```\n" + paragraph.removeprefix("\b").strip("\n") + "\n```"


def _usage(command: click.Command, context: click.Context) -> str:
    pieces = " ".join(command.collect_usage_pieces(context))
    return f"```\n{context.command_path} {pieces}\n```\n"


def _options(command: click.Command, context: click.Context) -> str:
    options = [parameter for parameter in command.get_params(context) if isinstance(parameter, click.Option)]
    records = [option.get_help_record(context) for option in options if option.name != "help"]
    rows = [(code(names), cell(help_)) for names, help_ in filter(None, records)]
    return table(("option", "meaning"), rows) if rows else ""
