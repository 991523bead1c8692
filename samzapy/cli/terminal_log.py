"""Prints log lines on standard error while a job runs, above its bars: coloured on a terminal, else as in the
files."""

from __future__ import annotations

import logging

from rich.console import Console
from rich.logging import RichHandler

from samzapy.cli.output import line_on
from samzapy.config.supervision import LogConfig
from samzapy.container.supervision.log_lines import TextLines, formatter

#: The loggers of the clients, which write many lines while a broker is unreachable. The log files have all of them.
_CLIENTS = "samzapy.kafka"


class _Plain(logging.Handler):
    """Prints each line as the formatter makes it."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        """Print one line."""
        line_on(self._console, self.format(record))


class Placed(TextLines):
    """Logger, place and text; rich prints time, level and traceback in its own way."""

    def format(self, record: logging.LogRecord) -> str:
        """The text of the line."""
        return f"{record.name}{self.place(record)}: {record.getMessage()}{self.trace(record)}"


def terminal_log(config: LogConfig, job_name: str, console: Console) -> logging.Handler:
    """The handler for a console."""
    handler: logging.Handler
    if console.is_terminal and not config.as_json:
        handler = RichHandler(console=console, show_path=False, markup=False, omit_repeated_times=False)
        handler.setFormatter(Placed())
    else:
        handler = _Plain(console)
        handler.setFormatter(formatter(job_name, as_json=config.as_json))
    handler.addFilter(lambda record: record.name != _CLIENTS)
    return handler
