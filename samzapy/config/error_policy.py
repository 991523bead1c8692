"""An error policy: what becomes of a message that fails, and how that is written."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

from samzapy.api.stream import SystemStream
from samzapy.config.kinds import Kind


class Stage(Enum):
    """Where a message can fail."""

    DESERIALIZE = "deserialize"
    PROCESS = "process"
    SERIALIZE = "serialize"
    PRODUCE = "produce"


class Action(Enum):
    """What is done with a message that has failed for good."""

    FAIL = "fail"
    SKIP = "skip"
    DEAD_LETTER = "dead-letter"


LONGEST_BACKOFF_MS = 60_000
DEFAULT_RETRIES, DEFAULT_BACKOFF_MS = 3, 100


@dataclass(frozen=True)
class ErrorPolicy:
    """Up to `retries` repetitions, the first after `backoff_ms`, each pause twice the one before (a minute at most);
    `then` what is done. Exceptions named in `ignored` (by class or base class, `*`: all) are skipped at once."""

    then: Action = Action.FAIL
    retries: int = 0
    backoff_ms: int = DEFAULT_BACKOFF_MS
    ignored: frozenset[str] = frozenset()

    @property
    def only_fails(self) -> bool:
        """Whether this is the default: the first failure ends the attempt."""
        return self.then is Action.FAIL and not self.retries and not self.ignored

    def pauses_s(self) -> Iterator[float]:
        """The seconds to wait before each repetition."""
        for n in range(self.retries):
            yield min(self.backoff_ms * 2**n, LONGEST_BACKOFF_MS) / 1000.0

    def ignores(self, error: BaseException) -> bool:
        """Whether `error` is one of those that are skipped."""
        if not self.ignored:
            return False
        names = {
            name for kind in type(error).__mro__ for name in (kind.__name__, f"{kind.__module__}.{kind.__qualname__}")
        }
        return "*" in self.ignored or bool(names & self.ignored)


@dataclass(frozen=True)
class ErrorConfig:
    """A policy for each stage, and where dead letters go (None: no policy writes any)."""

    policies: Mapping[Stage, ErrorPolicy] = field(default_factory=lambda: dict.fromkeys(Stage, ErrorPolicy()))
    dead_letters: SystemStream | None = None

    @property
    def only_fails(self) -> bool:
        """Whether every stage has the default policy."""
        return all(policy.only_fails for policy in self.policies.values())

    @property
    def writes_letters(self) -> bool:
        """Whether some stage writes dead letters."""
        return any(policy.then is Action.DEAD_LETTER for policy in self.policies.values())


@dataclass(frozen=True)
class PolicyText:
    """A policy as written: `retries` and `backoff_ms` are None where the text does not give them."""

    then: Action = Action.FAIL
    retrying: bool = False
    retries: int | None = None
    backoff_ms: int | None = None


_FORM = re.compile(
    r"(?P<first>fail|skip|dead-letter)"
    r"|retry(?:\s*\(\s*(?P<retries>\d{1,4})\s*(?:,\s*(?P<backoff>\d{1,9})\s*(?P<unit>ms|s)?\s*)?\))?"
    r"(?:\s+then\s+(?P<then>fail|skip|dead-letter))?",
    re.ASCII,
)
MOST_RETRIES = 1_000
MOST_BACKOFF_MS = 3_600_000
_ALLOWED = "fail, skip, dead-letter or retry, as in: retry(3, 100ms) then dead-letter"


def _policy(text: str) -> PolicyText:
    match = _FORM.fullmatch(text.lower().replace("_", "-"))
    if match is None:
        raise ValueError(_ALLOWED)
    if match["first"]:
        return PolicyText(Action(match["first"]))
    retries = None if match["retries"] is None else int(match["retries"])
    backoff = None if match["backoff"] is None else int(match["backoff"]) * (1_000 if match["unit"] == "s" else 1)
    if retries is not None and not 1 <= retries <= MOST_RETRIES:
        raise ValueError(f"retries from 1 to {MOST_RETRIES}")
    if backoff is not None and backoff > MOST_BACKOFF_MS:
        raise ValueError(f"a backoff of at most {MOST_BACKOFF_MS} ms")
    return PolicyText(Action(match["then"] or "fail"), retrying=True, retries=retries, backoff_ms=backoff)


POLICY = Kind(_ALLOWED, _policy)
