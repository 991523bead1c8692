"""Error policies: `task.error.*`, `task.dead.letter.stream`, and Samza's names for some of them.

A policy decides about a message that fails at one of four stages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from samzapy.api.stream import SystemStream
from samzapy.config.reading.keys import BOOLEAN, LIST, TEXT, Kind, Reader, key
from samzapy.config.streams.stream import StreamNames


class Stage(Enum):
    """The stages at which a message can fail."""

    DESERIALIZE = "deserialize"
    PROCESS = "process"
    SERIALIZE = "serialize"
    PRODUCE = "produce"


class Action(Enum):
    """The fate of a message after its last attempt has failed."""

    FAIL = "fail"
    SKIP = "skip"
    DEAD_LETTER = "dead-letter"


LONGEST_BACKOFF_MS = 60_000
DEFAULT_RETRIES, DEFAULT_BACKOFF_MS = 3, 100


@dataclass(frozen=True)
class ErrorPolicy:
    """Up to `retries` repetitions, then `then`.

    The first pause is `backoff_ms` long, and each further one twice as long, up to a minute. Messages that fail with
    an exception in `ignored` (by class or base class, `*`: all) are skipped at once.
    """

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
        """Whether a message that fails with `error` is skipped at once."""
        if not self.ignored:
            return False
        names = {
            name for kind in type(error).__mro__ for name in (kind.__name__, f"{kind.__module__}.{kind.__qualname__}")
        }
        return "*" in self.ignored or bool(names & self.ignored)


_FORM = re.compile(
    r"(?P<first>fail|skip|dead-letter)"
    r"|retry(?:\s*\(\s*(?P<retries>\d{1,4})\s*(?:,\s*(?P<backoff>\d{1,9})\s*(?P<unit>ms|s)?\s*)?\))?"
    r"(?:\s+then\s+(?P<then>fail|skip|dead-letter))?",
    re.ASCII,
)
_MOST_RETRIES, _MOST_BACKOFF_MS = 1_000, 3_600_000
_ALLOWED_ONCE = "fail, skip or dead-letter"
_ALLOWED = "fail, skip, dead-letter or retry, as in: retry(3, 100ms) then dead-letter"


def _policy(text: str) -> ErrorPolicy:
    match = _FORM.fullmatch(text.lower().replace("_", "-"))
    if match is None:
        raise ValueError(_ALLOWED)
    if match["first"]:
        return ErrorPolicy(Action(match["first"]))
    retries, backoff_ms = int(match["retries"] or DEFAULT_RETRIES), int(match["backoff"] or DEFAULT_BACKOFF_MS)
    if match["backoff"] and match["unit"] == "s":
        backoff_ms *= 1_000
    if not 1 <= retries <= _MOST_RETRIES:
        raise ValueError(f"1 to {_MOST_RETRIES} retries")
    if backoff_ms > _MOST_BACKOFF_MS:
        raise ValueError(f"a backoff of at most {_MOST_BACKOFF_MS} ms")
    return ErrorPolicy(Action(match["then"] or "fail"), retries, backoff_ms)


def _policy_once(text: str) -> ErrorPolicy:
    policy = _policy(text)
    if policy.retries:
        raise ValueError(f"{_ALLOWED_ONCE}, without retry: it would fail again")
    return policy


_POLICY = Kind(_ALLOWED, _policy)
_POLICY_ONCE = Kind(_ALLOWED_ONCE, _policy_once)
_FAIL = ErrorPolicy()
POLICY_KEYS = {stage: f"task.error.{stage.value}.policy" for stage in Stage}
DEAD_LETTERS, IGNORED = "task.dead.letter.stream", "task.ignored.exceptions"
DROP_KEYS = {
    Stage.DESERIALIZE: "task.drop.deserialization.errors",
    Stage.SERIALIZE: "task.drop.serialization.errors",
    Stage.PRODUCE: "task.drop.producer.errors",
}


@dataclass(frozen=True, kw_only=True)
class ErrorKeys:
    """The keys of the policies."""

    deserialize: ErrorPolicy = key("task.error.deserialize.policy", _POLICY_ONCE, _FAIL, shown="fail")
    """What happens to an input that does not decode: fail (the attempt ends), skip, or dead-letter."""
    process: ErrorPolicy = key("task.error.process.policy", _POLICY, _FAIL, shown="fail")
    """What happens to an input for which process raises: fail, skip, dead-letter, or retry(n, backoff) then one of
    these. Without numbers retry is retry(3, 100ms). Each pause is twice as long as the previous one, up to a minute."""
    serialize: ErrorPolicy = key("task.error.serialize.policy", _POLICY_ONCE, _FAIL, shown="fail")
    """What happens to an output that does not encode; as for deserialize."""
    produce: ErrorPolicy = key("task.error.produce.policy", _POLICY, _FAIL, shown="fail")
    """What happens to an output that its stream refuses (skip, dead-letter), or to a send that failed (retry); as for
    process."""
    dead_letters: str | None = key(DEAD_LETTERS, TEXT, None)
    """The stream of dead letters: `system.stream`, or a stream's id. It must exist."""
    ignored: tuple[str, ...] = key(IGNORED, LIST, ())
    """Exceptions of `process` that skip the message, by class or base class, or * for all. Other exceptions follow the
    policy."""
    drop_deserialize: bool = key(DROP_KEYS[Stage.DESERIALIZE], BOOLEAN, False)
    """Samza's name for task.error.deserialize.policy=skip."""
    drop_serialize: bool = key(DROP_KEYS[Stage.SERIALIZE], BOOLEAN, False)
    """Samza's name for task.error.serialize.policy=skip."""
    drop_produce: bool = key(DROP_KEYS[Stage.PRODUCE], BOOLEAN, False)
    """Samza's name for task.error.produce.policy=skip."""

    def policy(self, reader: Reader, stage: Stage) -> ErrorPolicy:
        """The policy of a stage; notes a problem if Samza's key contradicts samzapy's."""
        policy: ErrorPolicy = getattr(self, stage.value)
        if stage is Stage.PROCESS:
            if "*" not in self.ignored:
                return replace(policy, ignored=frozenset(self.ignored))
            samza = IGNORED
        elif getattr(self, f"drop_{stage.value}"):
            samza = DROP_KEYS[stage]
        else:
            return policy
        skip, own = ErrorPolicy(Action.SKIP), POLICY_KEYS[stage]
        if reader.is_set(own) and policy != skip:
            reader.problem(own, f"contradicts {samza}, which skips: remove one of them", reader.values.get(own))
        return skip


@dataclass(frozen=True)
class ErrorConfig:
    """A policy for each stage, and the stream of dead letters (None: no policy writes any)."""

    policies: Mapping[Stage, ErrorPolicy] = field(default_factory=lambda: dict.fromkeys(Stage, ErrorPolicy()))
    dead_letters: SystemStream | None = None

    @property
    def only_fails(self) -> bool:
        """Whether every stage has the default policy."""
        return all(policy.only_fails for policy in self.policies.values())

    @property
    def undoes_changes(self) -> bool:
        """Whether the changes of a call may be undone: of a message that fails, and of a batch with an output that
        fails."""
        of_outputs = self.policies[Stage.SERIALIZE].only_fails and self.policies[Stage.PRODUCE].then is Action.FAIL
        return not (self.policies[Stage.PROCESS].only_fails and of_outputs)

    @property
    def writes_letters(self) -> bool:
        """Whether some stage writes dead letters."""
        return any(policy.then is Action.DEAD_LETTER for policy in self.policies.values())


def parse_errors(reader: Reader, names: StreamNames) -> ErrorConfig:
    """Read the policies. Note keys that contradict each other, and a missing stream for dead letters."""
    keys = reader.read(ErrorKeys)
    name = keys.dead_letters
    stream = None if name is None else names.find(reader, DEAD_LETTERS, name)
    config = ErrorConfig({stage: keys.policy(reader, stage) for stage in Stage}, stream)
    if config.writes_letters and not reader.is_set(DEAD_LETTERS):
        writers = [POLICY_KEYS[s] for s, policy in config.policies.items() if policy.then is Action.DEAD_LETTER]
        reader.missing(DEAD_LETTERS, "kafka.dead-letters", f"by {', '.join(writers)}")
    elif reader.is_set(DEAD_LETTERS) and not config.writes_letters:
        reader.warn(f"{DEAD_LETTERS}: has no effect without a task.error.*.policy of dead-letter")
    return config


def skipping_key(values: Mapping[str, str], stage: Stage) -> str:
    """The key that asks for skipping: samzapy's, or Samza's."""
    own = POLICY_KEYS[stage]
    return own if own in values else DROP_KEYS.get(stage, IGNORED)
