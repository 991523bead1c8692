"""Describes a failure of the user's code: the exception, the line of the user's code, the whole traceback.

The line comes from the innermost frame of the user's code: neither samzapy's own, nor of Python's library, nor of an
installed package. A task that is itself an installed package has none of these; then it is the outermost frame outside
of samzapy.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

from samzapy.errors import SamzapyError
from samzapy.job.facts import LONGEST_LINE, LONGEST_TRACEBACK, UserFailure
from samzapy.plugins import is_installed
from samzapy.strict_json import sendable

_SAMZAPY = Path(__file__).resolve().parents[2]
#: The package's own tasks, which stand for a user's.
_EXAMPLES = str(_SAMZAPY / "examples") + "/"
_OURS = str(_SAMZAPY) + "/"


def user_line(cause: BaseException) -> str:
    """The line of the user's code that an exception comes from, as `tasks/counts.py:42`: below the folder of `sys.path`
    that has it. Empty if no frame is the user's."""
    frames = [frame for frame in traceback.extract_tb(cause.__traceback__) if not _is_ours(frame.filename)]
    for frame in reversed(frames):
        if not frame.filename.startswith("<") and not is_installed(frame.filename):
            return f"{_short(frame.filename)}:{frame.lineno}"
    return f"{_short(frames[0].filename)}:{frames[0].lineno}" if frames else ""


def whole_traceback(cause: BaseException) -> str:
    """The traceback of an exception and its causes as text; of a long one the end, which has the exception."""
    text = sendable("".join(traceback.format_exception(cause)).rstrip())
    return text if len(text) <= LONGEST_TRACEBACK else f"...{text[-LONGEST_TRACEBACK:]}"


def one_line(cause: BaseException) -> str:
    """The message of an exception as one line."""
    return sendable(" ".join(str(cause).split())[:LONGEST_LINE])


def user_failure(error: BaseException) -> UserFailure | None:
    """The failure of the user's code, or of a message, that `error` is about; None if it is about something else."""
    call = error.call if isinstance(error, SamzapyError) else None
    if call is None:
        return None
    cause = error.__cause__ or error
    partition, first, last = call.span or ("", -1, -1)
    return UserFailure(
        type(cause).__name__,
        one_line(cause),
        call.task,
        call.where,
        user_line(cause),
        whole_traceback(cause),
        partition,
        first,
        last,
    )


def _is_ours(filename: str) -> bool:
    return filename.startswith(_OURS) and not filename.startswith(_EXAMPLES)


def _short(filename: str) -> str:
    """The file's path below the folder that it is imported from."""
    path = Path(filename)
    roots = [root for root in map(Path, _roots()) if root in path.parents]
    return str(path.relative_to(max(roots, key=lambda root: len(root.parts)))) if roots else filename


def _roots() -> Sequence[str]:
    return [entry or str(Path.cwd()) for entry in sys.path]
