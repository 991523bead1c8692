"""What a database driver raises, and what it means for the task.

DB-API 2 fixes the names of the exception classes but no base class, so it is by their names that they are known.
"""

from __future__ import annotations

#: A lost connection, a server that shuts down, a deadlock, a time-out: what a new connection may cure.
_TRANSIENT = {"OperationalError", "InterfaceError"}
#: SQLite calls nearly everything an OperationalError, a missing table too.
_TRANSIENT_IN_SQLITE = ("locked", "busy", "disk I/O")


def is_database_error(cause: BaseException) -> bool:
    """Whether a driver raised it."""
    return "Error" in _names(cause)


def is_transient(cause: BaseException) -> bool:
    """Whether the same call may succeed on a new connection."""
    if not _names(cause) & _TRANSIENT:
        return False
    in_sqlite = any(base.__module__ == "sqlite3" for base in type(cause).__mro__)
    return not in_sqlite or any(word in str(cause) for word in _TRANSIENT_IN_SQLITE)


def is_conflict(cause: BaseException) -> bool:
    """Whether somebody else wrote the same at the same time: a unique constraint, or a catalog entry made twice."""
    return bool(_names(cause) & {"IntegrityError", "InternalError"})


def one_line(cause: BaseException) -> str:
    """The driver's message without its line breaks; the class if it says nothing."""
    return " ".join(str(cause).split()) or type(cause).__name__


def _names(cause: BaseException) -> set[str]:
    return {base.__name__ for base in type(cause).__mro__}
