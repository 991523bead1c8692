"""Regular expressions among the inputs of a job, and the interval at which the driver looks for matching streams.

1. An entry of `task.inputs` is a pattern if the name of its stream has a character that no name has, such as `*` or
   `[`. It is a regular expression of Python, matched against the whole name: `kafka.orders-.*`.
2. A pattern has the same keys as a stream: `streams.ID.*` for an id with the pattern as `samza.physical.name`, or
   `systems.S.streams.PATTERN.*`. They hold for each stream that the pattern matches, unless the stream has the key
   itself.
3. A start writes the streams out in place of the patterns (`written_out`), so containers get a job file without
   patterns.
4. Instead of patterns in `task.inputs`, Samza has a rewriter of the configuration that adds the streams of a `regex`:
   `of_rewriters` reads its keys as a pattern.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from samzapy.api.stream import SystemStream
from samzapy.config.reading.keys import Kind, Reader, split_list
from samzapy.config.reading.properties import References, Source, inlined
from samzapy.config.streams.stream import NAMING
from samzapy.errors import ConfigProblem


@dataclass(frozen=True)
class InputPattern:
    """A regular expression for the names of a system's streams. `stream` has the expression as its name; `stream_id`:
    the id by which the job file names it, None for an entry that is written out."""

    stream: SystemStream
    stream_id: str | None = None

    def matches(self, stream: SystemStream) -> bool:
        """Whether the expression matches the whole name of the stream, and the system is the pattern's."""
        return stream.system == self.stream.system and re.fullmatch(self.stream.stream, stream.stream) is not None

    def __str__(self) -> str:
        return str(self.stream)


def _entries(text: str) -> tuple[str, ...]:
    """The entries of a comma list; a comma in brackets belongs to its entry."""
    matches, depth = [""], 0
    for character in text:
        depth = max(0, depth + (character in "([{") - (character in ")]}"))
        if character == "," and not depth:
            matches.append("")
        else:
            matches[-1] += character
    return tuple(entry for entry in map(str.strip, matches) if entry)


#: A comma list of streams and patterns, as texts.
ENTRIES: Kind[Any] = Kind("a comma list", _entries)
_INPUTS, REFRESH_MS = "task.inputs", "job.inputs.refresh.ms"


def parse_pattern(
    reader: Reader, key: str, entry: str, stream: SystemStream, stream_id: str | None
) -> InputPattern | None:
    """The pattern that the `entry` of `key` names; notes a problem, and returns None, for a malformed one."""
    try:
        re.compile(stream.stream)
    except (re.error, RecursionError, OverflowError, Warning) as cause:
        reader.problem(key, f"expected a stream or a regular expression of Python ({cause})", entry)
        return None
    return InputPattern(stream, stream_id)


def written_out(
    raw: Mapping[str, str], fixed: Iterable[SystemStream], matches: Mapping[InputPattern, Iterable[SystemStream]]
) -> dict[str, str]:
    """A job file, as flat pairs, with the streams `matches` in place of the patterns, and each with its pattern's keys.

    1. A stream's own key wins; of several patterns the first one that has the key.
    2. The `fixed` inputs come first.
    3. A reference to a key of a pattern is replaced by that key's value as written.
    """
    prefixes = tuple({prefix for pattern in matches for prefix in _prefixes(pattern)})
    gone = {key: value for key, value in raw.items() if key.startswith(prefixes) or key == REFRESH_MS}
    out = {key: value for key, value in raw.items() if key not in gone}
    names = dict.fromkeys(fixed)
    for pattern, streams in matches.items():
        own = _settings(raw, pattern)
        for stream in streams:
            names[stream] = None
            for leaf, value in own.items():
                out.setdefault(f"systems.{stream.system}.streams.{stream.stream}.{leaf}", value)
    out[_INPUTS] = ",".join(map(str, names))
    return inlined(out, gone)


_REWRITERS, _GENERATOR = "job.config.rewriters", ".RegExTopicGenerator"


def of_rewriters(values: Mapping[str, str], environ: Mapping[str, str]) -> Source:
    """Replace the keys of the rewriters of the class RegExTopicGenerator. `environ` has the variables of references in
    SYSTEM and REGEX, which become parts of keys.

    job.config.rewriter.N.system, .regex      an entry SYSTEM.REGEX of task.inputs
    job.config.rewriter.N.config.KEY          systems.SYSTEM.streams.REGEX.KEY

    Other rewriters stay unchanged; `known_keys` refuses them.
    """
    done, gone = dict(values), dict[str, str]()
    warnings, problems = list[str](), list[ConfigProblem]()
    names = dict.fromkeys(split_list(values.get(_REWRITERS, "")))
    generators = [name for name in names if values.get(f"job.config.rewriter.{name}.class", "").endswith(_GENERATOR)]
    resolved = References(values, environ).values if generators else {}
    for name in generators:
        prefix = f"job.config.rewriter.{name}."
        below = {key: values[key] for key in values if key.startswith(prefix)}
        for key in below:
            done.pop(key, None)
        own = {key.removeprefix(prefix): value for key, value in below.items()}
        gone |= below
        missing = [leaf for leaf in ("system", "regex") if not own.get(leaf)]
        problems += [ConfigProblem(prefix + leaf, None, "required by RegExTopicGenerator") for leaf in missing]
        if missing:
            continue
        entry = f"{own['system']}.{own['regex']}"
        done[_INPUTS] = ",".join(filter(None, (done.get(_INPUTS, "").strip(), entry)))
        for leaf, value in own.items():
            if leaf.startswith("config."):
                system, regex = (resolved.get(prefix + part, own[part]) for part in ("system", "regex"))
                key = f"systems.{system}.streams.{regex}.{leaf.removeprefix('config.')}"
                done.setdefault(key, value)
        warnings.append(f"{prefix}*: read as {entry} in {_INPUTS}")
    if generators:
        rest = ",".join(name for name in names if name not in generators)
        del done[_REWRITERS]
        done |= {_REWRITERS: rest} if rest else {}
    return Source(inlined(done, gone), tuple(warnings), tuple(problems))


def _prefixes(pattern: InputPattern) -> list[str]:
    """The prefixes of a pattern's keys; prefixes by its id come first."""
    by_name = f"systems.{pattern.stream.system}.streams.{pattern.stream.stream}."
    return [by_name] if pattern.stream_id is None else [f"streams.{pattern.stream_id}.", by_name]


def _settings(raw: Mapping[str, str], pattern: InputPattern) -> dict[str, str]:
    matches: dict[str, str] = {}
    for prefix in _prefixes(pattern):
        for key, value in raw.items():
            leaf = key.removeprefix(prefix)
            if leaf != key and leaf not in NAMING:
                matches.setdefault(leaf, value)
    return matches
