"""Error policies: `task.error.*`, `task.dead.letter.stream`, and Samza's names for some of them.

A policy decides about a message that fails at one of four stages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from samzapy.api.stream import SystemStream
from samzapy.config.guarantee import Guarantee
from samzapy.config.reading.keys import BOOLEAN, LIST, TEXT, Key, Kind, integer, optional
from samzapy.config.reading.reader import Reader
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


@dataclass(frozen=True)
class PolicyText:
    """A policy as written: `retries` and `backoff_ms` are None if the text leaves them out."""

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
        raise ValueError(f"1 to {MOST_RETRIES} retries")
    if backoff is not None and backoff > MOST_BACKOFF_MS:
        raise ValueError(f"a backoff of at most {MOST_BACKOFF_MS} ms")
    return PolicyText(Action(match["then"] or "fail"), retrying=True, retries=retries, backoff_ms=backoff)


POLICY = Kind(_ALLOWED, _policy)


_WHAT = {
    Stage.DESERIALIZE: "an input that does not decode",
    Stage.PROCESS: "an input for which process raises",
    Stage.SERIALIZE: "an output that does not encode",
    Stage.PRODUCE: "an output that its stream refuses (skip, dead-letter), or a send that failed (retry)",
}
POLICIES = {
    stage: Key(
        f"task.error.{stage.value}.policy",
        POLICY,
        PolicyText(),
        f"What happens to {what}: fail (the attempt ends), skip, dead-letter, or retry(n, backoff) then one of these.",
        "fail",
    )
    for stage, what in _WHAT.items()
}
RETRIES: dict[Stage, Key[int | None]] = {
    stage: Key(
        f"task.error.{stage.value}.retries",
        optional(integer(1, MOST_RETRIES)),
        None,
        "Number of repetitions for the policy retry without a number.",
        str(DEFAULT_RETRIES),
    )
    for stage in Stage
}
BACKOFF_MS: dict[Stage, Key[int | None]] = {
    stage: Key(
        f"task.error.{stage.value}.backoff.ms",
        optional(integer(0, MOST_BACKOFF_MS)),
        None,
        "Milliseconds before the first repetition. Each pause is twice as long as the previous one, up to a minute.",
        str(DEFAULT_BACKOFF_MS),
    )
    for stage in Stage
}
DEAD_LETTER_STREAM = Key(
    "task.dead.letter.stream",
    TEXT,
    None,
    "The stream of dead letters: `system.stream`, or a stream's id. It must exist.",
)
IGNORED_EXCEPTIONS: Key[tuple[str, ...]] = Key(
    "task.ignored.exceptions",
    LIST,
    (),
    "Exceptions of `process` that skip the message, by class or base class, or * for all. Other exceptions follow "
    "the policy.",
)
_SKIPPING = {
    Stage.DESERIALIZE: "task.drop.deserialization.errors",
    Stage.SERIALIZE: "task.drop.serialization.errors",
    Stage.PRODUCE: "task.drop.producer.errors",
}
DROP = {
    stage: Key(name, BOOLEAN, False, f"Samza's name for task.error.{stage.value}.policy=skip.")
    for stage, name in _SKIPPING.items()
}
KEYS: tuple[Key[Any], ...] = (
    *POLICIES.values(),
    *RETRIES.values(),
    *BACKOFF_MS.values(),
    DEAD_LETTER_STREAM,
    IGNORED_EXCEPTIONS,
    *DROP.values(),
)


def parse_errors(reader: Reader, names: StreamNames) -> ErrorConfig:
    """Read the policies. Note keys that contradict each other, and a missing stream for dead letters."""
    config = ErrorConfig({stage: _stage(reader, stage) for stage in Stage}, _dead_letters(reader, names))
    key = DEAD_LETTER_STREAM.name
    if config.writes_letters and config.dead_letters is None and not reader.has(DEAD_LETTER_STREAM):
        writers = [POLICIES[s].name for s, policy in config.policies.items() if policy.then is Action.DEAD_LETTER]
        reader.problem(key, f"required by {', '.join(writers)}, e.g. kafka.dead-letters")
    elif reader.has(DEAD_LETTER_STREAM) and not config.writes_letters:
        reader.warn(f"{key}: has no effect without a task.error.*.policy of dead-letter")
    return config


def check_waits(
    reader: Reader, errors: ErrorConfig, guarantee: Guarantee, commit_ms: int, transaction_timeout_ms: int
) -> None:
    """Note policies that the guarantee forbids, such as pauses as long as a transaction; warn of gaps in the policy of
    produce."""
    produce = errors.policies[Stage.PRODUCE]
    if produce.then is not Action.FAIL:
        older = DROP[Stage.PRODUCE]
        reader.warn(
            f"{(older if reader.get(older) else POLICIES[Stage.PRODUCE]).name}: only records that their stream refuses "
            "are skipped; any other failed send repeats the work since the last commit"
        )
    if produce.retries and guarantee is Guarantee.AT_MOST_ONCE:
        key = POLICIES[Stage.PRODUCE].name
        reader.problem(
            key, "retry needs a guarantee that repeats inputs, at-most-once drops them", reader.values.get(key)
        )
    if not guarantee.transactional:
        return
    # A message may start to wait right before a commit is due. An invalid commit interval is a separate problem.
    open_ms = commit_ms if 0 < commit_ms < transaction_timeout_ms else 0
    for stage in (Stage.DESERIALIZE, Stage.PROCESS, Stage.SERIALIZE):
        total_ms = round(sum(errors.policies[stage].pauses_s()) * 1000)
        if total_ms and total_ms + open_ms >= transaction_timeout_ms:
            reader.problem(
                POLICIES[stage].name,
                f"the sum of all pauses ({total_ms} ms) and task.commit.ms ({open_ms}) must be < "
                f"task.transaction.timeout.ms ({transaction_timeout_ms}) with {guarantee.value}",
            )


def _stage(reader: Reader, stage: Stage) -> ErrorPolicy:
    key, written = POLICIES[stage], reader.get(POLICIES[stage])
    retries, backoff_ms = reader.get(RETRIES[stage]), reader.get(BACKOFF_MS[stage])
    for part, name, inline in (
        (retries, RETRIES[stage].name, written.retries),
        (backoff_ms, BACKOFF_MS[stage].name, written.backoff_ms),
    ):
        if part is not None and not written.retrying:
            reader.problem(name, f"needs {key.name}=retry", str(part))
        elif part is not None and inline is not None:
            reader.problem(name, f"{key.name} sets it as well: remove one of them", str(part))
    policy = ErrorPolicy(
        written.then,
        (written.retries or retries or DEFAULT_RETRIES) if written.retrying else 0,
        next((given for given in (written.backoff_ms, backoff_ms) if given is not None), DEFAULT_BACKOFF_MS),
    )
    return _as_samza_says(reader, stage, policy)


def _as_samza_says(reader: Reader, stage: Stage, policy: ErrorPolicy) -> ErrorPolicy:
    key = POLICIES[stage]
    skip = ErrorPolicy(Action.SKIP)
    if stage is Stage.PROCESS:
        given: tuple[str, ...] = reader.get(IGNORED_EXCEPTIONS)
        names = frozenset(given)
        if not names:
            return policy
        if "*" not in names:
            return ErrorPolicy(policy.then, policy.retries, policy.backoff_ms, names)
        older = IGNORED_EXCEPTIONS.name
    else:
        if not reader.get(DROP[stage]):
            return policy
        older = DROP[stage].name
    if reader.has(key) and policy != skip:
        reader.problem(key.name, f"contradicts {older}, which skips: remove one of them", reader.values.get(key.name))
    return skip


def _dead_letters(reader: Reader, names: StreamNames) -> SystemStream | None:
    name = reader.get(DEAD_LETTER_STREAM)
    return None if name is None else names.find(reader, DEAD_LETTER_STREAM.name, name)
