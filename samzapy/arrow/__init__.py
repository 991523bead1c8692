"""Messages as tables and frames, and back. The libraries of tables and frames are extras."""

from __future__ import annotations

import importlib
from typing import Any


def library(name: str, extra: str) -> Any:
    """The module `name`. Raises ImportError, with the extra that brings it, if it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError as cause:
        raise ImportError(
            f"frames of {name} need {name} ({cause}); install it: pip install 'samzapy[{extra}]'"
        ) from cause


def pyarrow() -> Any:
    """The module pyarrow. Raises ImportError, with the extra that brings it, if it is not installed."""
    return library("pyarrow", "arrow")
