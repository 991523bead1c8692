"""The type variables of keys and messages, which are `Any` in a class without brackets: `StreamTask` is
`StreamTask[Any, Any]`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    # Type checkers bring its declarations along; nothing has to be installed.
    from typing_extensions import TypeVar

    K = TypeVar("K", default=Any)
    V = TypeVar("V", default=Any)
else:
    # A default needs Python 3.13.
    from typing import TypeVar

    K = TypeVar("K")
    V = TypeVar("V")
