"""What torture tests measured, and the table of it: lost, duplicated and mismatching, per scenario and guarantee."""

from dataclasses import dataclass, field

GUARANTEES = ("at-most-once", "at-least-once", "effectively-once", "exactly-once")

#: For what holds whatever the guarantee, such as a store that is read: nothing lost, doubled or different.
ANY = "any"

#: Where no transaction carries the state: it may hold inputs twice.
PLAIN = "at-least-once, plain"

#: The promise table: which of the three numbers are zero under which guarantee.
PROMISED_ZERO = {
    "at-most-once": ("duplicated",),
    "at-least-once": ("lost", "mismatches"),
    PLAIN: ("lost",),
    "effectively-once": ("lost", "mismatches"),
    "exactly-once": ("lost", "duplicated", "mismatches"),
    ANY: ("lost", "duplicated", "mismatches"),
}


#: What a cluster that is not well may cost, whatever the guarantee: seconds without an output once it is whole again,
#: and per cent of a core that all processes of a job together use until then.
MOST = {"silent_s": 15.0, "cpu_percent": 5.0}


@dataclass(frozen=True)
class Row:
    """One measured run, or the sum of several; `recovery_s` is the longest time until everything worked again. None:
    not measured."""

    scenario: str
    guarantee: str
    system: str
    runs: int
    events: int
    faults: int
    lost: int
    duplicated: int
    mismatches: int
    recovery_s: float | None = None
    silent_s: float | None = None
    cpu_percent: float | None = None

    def __post_init__(self):
        if self.guarantee not in PROMISED_ZERO:
            raise ValueError(f"guarantee: one of {', '.join(PROMISED_ZERO)}, got {self.guarantee!r}")

    def broken_promises(self):
        """What was measured against the promise table, as one line; empty if the guarantee was kept."""
        due = dict.fromkeys(PROMISED_ZERO[self.guarantee], 0) | MOST
        found = {what: getattr(self, what) or 0 for what in due}
        broken = [f"{what} {found[what]:.4g}, promised {due[what]:g}" for what in due if found[what] > due[what]]
        return f"{self.scenario}, {self.guarantee}, {self.system}: {'; '.join(broken)}" if broken else ""

    def plus(self, other):
        """Both rows in one; systems are listed."""
        systems = dict.fromkeys([*self.system.split(", "), *other.system.split(", ")])
        return Row(
            self.scenario,
            self.guarantee,
            ", ".join(systems),
            self.runs + other.runs,
            self.events + other.events,
            self.faults + other.faults,
            self.lost + other.lost,
            self.duplicated + other.duplicated,
            self.mismatches + other.mismatches,
            *(_larger(getattr(self, what), getattr(other, what)) for what in LARGEST),
        )


#: The columns of which a sum of rows has the largest.
LARGEST = ("recovery_s", "silent_s", "cpu_percent")

HEADS = (
    "scenario",
    "guarantee",
    "system",
    "runs",
    "events",
    "faults",
    "lost",
    "duplicated",
    "mismatches",
    "recovery s",
    "silent s",
    "CPU %",
)
_NUMBERS_FROM = HEADS.index("runs")


@dataclass
class Outcomes:
    """The rows of a test run, in the order of their measuring."""

    rows: list[Row] = field(default_factory=list)

    def per_system(self):
        """Rows of the same scenario, guarantee and system, summed."""
        return _summed(self.rows, lambda row: (row.scenario, row.guarantee, row.system))

    def per_guarantee(self):
        """Rows of the same scenario and guarantee, summed."""
        return _summed(self.rows, lambda row: (row.scenario, row.guarantee))

    def markdown(self):
        """`per_guarantee` as a table, with the sums of everything below it."""
        rows = [_cells(row) for row in self.per_guarantee()]
        rule = ["---"] * _NUMBERS_FROM + ["---:"] * (len(HEADS) - _NUMBERS_FROM)
        return "".join(f"| {' | '.join(cells)} |\n" for cells in (HEADS, rule, *rows, self._total()))

    def text(self):
        """`per_system`, aligned for a terminal."""
        table = [HEADS, *(_cells(row) for row in self.per_system()), self._total()]
        widths = [max(len(cells[column]) for cells in table) for column in range(len(HEADS))]
        return "\n".join("  ".join(_aligned(cells, widths)).rstrip() for cells in table)

    def _total(self):
        totals = [
            sum(getattr(row, name) for row in self.rows) for name in ("runs", "events", "faults", "lost", "duplicated")
        ]
        mismatches = sum(row.mismatches for row in self.rows)
        return ("all", "", "", *(f"{number:,}" for number in (*totals, mismatches)), *("" for _ in LARGEST))


def _summed(rows, key):
    sums = {}
    for row in rows:
        sums[key(row)] = sums[key(row)].plus(row) if key(row) in sums else row
    order = {name: place for place, name in enumerate(PROMISED_ZERO)}
    return sorted(sums.values(), key=lambda row: (row.scenario, order[row.guarantee], row.system))


def _larger(one, other):
    return max((number for number in (one, other) if number is not None), default=None)


def _cells(row):
    numbers = (row.runs, row.events, row.faults, row.lost, row.duplicated, row.mismatches)
    largest = ["" if (number := getattr(row, what)) is None else f"{number:.1f}" for what in LARGEST]
    return (row.scenario, row.guarantee, row.system, *(f"{number:,}" for number in numbers), *largest)


def _aligned(cells, widths):
    for place, (cell, width) in enumerate(zip(cells, widths, strict=True)):
        yield cell.rjust(width) if place >= _NUMBERS_FROM else cell.ljust(width)
