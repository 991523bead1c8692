"""Draws `docs/pictures/lateness.svg`: which messages count in which windows, as the windows themselves say.

`python -m docs.generator.lateness FILE` writes the picture.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from samzapy import Context, Hopping, Sessions, Sliding, SystemStream, Tumbling
from samzapy.operators.windows import Collect, WindowedAggregation, WindowedTask
from samzapy.operators.windows.state import WindowDefinition
from samzapy.testing import TaskTestDriver

MINUTE_MS = 60_000
#: A whole day, so that windows begin at whole numbers of minutes.
START_MS = 20_000 * 86_400_000
GRACE = 2
#: The minutes of the messages, in the order of their arrival.
ARRIVALS = (1, 3, 5, 2, 7, 1, 9, 6, 13, 16, 10)
#: One more, by which all windows close; the picture ends before it.
LAST = 60
KINDS: Sequence[tuple[str, WindowDefinition, str]] = (
    (
        'Tumbling("4m", grace="2m")',
        Tumbling("4m", grace="2m"),
        "1 comes again after 7, past 4 + 2: late. 6 comes after 9, before 8 + 2: in time.",
    ),
    (
        'Hopping("4m", "2m", grace="2m")',
        Hopping("4m", "2m", grace="2m"),
        "A message that is late for one of its windows counts in the others. 1 is late for both: 2 + 2 and 4 + 2.",
    ),
    (
        'Sliding("4m", grace="2m")',
        Sliding("4m", grace="2m"),
        "A window ends with each message. 1 is late when no window can take it: 1 + 4 + 2.",
    ),
    (
        'Sessions("3m", grace="2m")',
        Sessions("3m", grace="2m"),
        "1 counts: its session is not over. 10 falls into none, and is older than 16 by more than the grace.",
    ),
)

_JOB = {
    "task.inputs": "memory.in",
    "task.window.ms": "1s",
    "systems.memory.samza.factory": "memory",
    "systems.memory.default.stream.samza.key.serde": "string",
    "systems.memory.default.stream.samza.msg.serde": "json",
    "stores.windows.factory": "inmemory",
    "stores.windows.key.serde": "string",
    "stores.windows.msg.serde": "json",
    "stores.windows.changelog": "memory.windows",
}


class Outcome(NamedTuple):
    """Each window with its start and end in minutes and the numbers of its messages; those that were late."""

    windows: list[tuple[int, int, list[int]]]
    late: set[int]


def outcome(definition: WindowDefinition) -> Outcome:
    """What becomes of `ARRIVALS`, one after another."""

    class Task(WindowedTask[str, int]):
        kinds: ClassVar[WindowDefinition] = definition

        def aggregation(self, context: Context) -> WindowedAggregation:
            late = SystemStream("memory", "late")
            return WindowedAggregation(self.kinds, Collect(), SystemStream("memory", "out"), late=late)

        def process(self, envelope: Any, collector: Any, coordinator: Any) -> None:
            self.windows.add(envelope, envelope.key, envelope.message, collector)

    with TaskTestDriver(Task, _JOB) as driver:
        for number, minute in enumerate((*ARRIVALS, LAST)):
            driver.send("in", number, key="ann", timestamp=START_MS + minute * MINUTE_MS)
            driver.window()
        results = driver.outputs("out").messages
        late = set(driver.outputs("late").messages)
    found = [
        (round((each["start"] - START_MS) / MINUTE_MS), round((each["end"] - START_MS) / MINUTE_MS), each["value"])
        for each in results
    ]
    return Outcome(sorted(found), late)


_LEFT, _MINUTE, _ROW, _HEIGHT, _WIDTH, _SHOWN = 150, 17, 15, 310, 600, 23
_STYLE = """\
text { font: 13px system-ui, sans-serif; fill: #1f2937 }
.small { font-size: 11px; fill: #4b5563 }
.head { font-weight: 600 }
.grid { stroke: #e2e8f0 }
.window { fill: #e0e7ff; stroke: #6366f1 }
.grace { fill: none; stroke: #6366f1; stroke-dasharray: 4 3 }
.counts { fill: #4f46e5 }
.late { fill: #ffffff; stroke: #dc2626; stroke-width: 2 }"""


def picture() -> str:
    """The picture as SVG: a panel for each kind of window."""
    title = "Which messages are late, for tumbling, hopping, sliding and session windows with a grace of two minutes"
    size = f'width="{2 * _WIDTH}" height="{2 * _HEIGHT + 50}"'
    view = f'viewBox="0 0 {2 * _WIDTH} {2 * _HEIGHT + 50}"'
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" {view} {size} role="img" aria-label="{title}">']
    lines += [
        f"<title>{title}</title>",
        f"<style>\n{_STYLE}\n</style>",
        '<rect width="100%" height="100%" fill="#fff"/>',
    ]
    for place, (name, definition, caption) in enumerate(KINDS):
        across, down = place % 2 * _WIDTH, place // 2 * _HEIGHT
        lines += [f'<g transform="translate({across} {down})">', *_panel(name, outcome(definition), caption), "</g>"]
    below = 2 * _HEIGHT + 20
    lines += [
        f'<circle class="counts" cx="30" cy="{below}" r="5"/>',
        _text(42, below + 4, "counts in the windows above it"),
    ]
    lines += [
        f'<circle class="late" cx="250" cy="{below}" r="5"/>',
        _text(262, below + 4, "late for all of its windows"),
    ]
    bars = (
        "Bars: windows, with the number of their messages. Dashed: the grace, until the newest message reaches its end."
    )
    lines += [_text(430, below + 4, bars), _text(430, below + 20, "Messages arrive from top to bottom.")]
    return "\n".join([*lines, "</svg>\n"])


def _text(x: float, y: float, text: str, kind: str = "small") -> str:
    return f'<text class="{kind}" x="{x:g}" y="{y:g}">{text.replace(chr(34), "&quot;")}</text>'


def _panel(name: str, found: Outcome, caption: str) -> Iterator[str]:
    yield _text(20, 24, name, "head")
    yield _text(20, 290, caption)
    rows: list[int] = []
    for start, end, counted in found.windows:
        # The first row where the window before it has ended.
        row = next((at for at, until in enumerate(rows) if until <= start), len(rows))
        rows[row:] = [end + GRACE, *rows[row + 1 :]]
        y, length = 40 + row * 13, max((end - start) * _MINUTE, 3)
        yield f'<rect class="window" x="{_x(start):g}" y="{y}" width="{length:g}" height="10"/>'
        yield f'<rect class="grace" x="{_x(start) + length:g}" y="{y}" width="{GRACE * _MINUTE}" height="10"/>'
        yield _text(_x(start) + 3, y + 9, str(len(counted)))
    top = 40 + len(rows) * 13 + 14
    below = top + len(ARRIVALS) * _ROW
    for minute in range(_SHOWN):
        yield f'<line class="grid" x1="{_x(minute):g}" y1="{top - 8}" x2="{_x(minute):g}" y2="{below}"/>'
        if minute % 2 == 0:
            yield _text(_x(minute) - 4, below + 12, str(minute))
    for number, minute in enumerate(ARRIVALS):
        y = top + number * _ROW
        kind = "late" if number in found.late else "counts"
        yield _text(20, y + 4, f"message of minute {minute}")
        yield f'<circle class="{kind}" cx="{_x(minute):g}" cy="{y}" r="5"/>'


def _x(minute: float) -> float:
    return _LEFT + minute * _MINUTE


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(picture(), encoding="utf-8")
