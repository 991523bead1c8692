"""The status page: plain HTML without scripts, readable over any tunnel; it reloads itself."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from samzapy.api.lease import TaskProgress
from samzapy.config.guarantee_warnings import COUNTS
from samzapy.coordinator.clocks import ClockStatus, as_text
from samzapy.coordinator.progress import ContainerStatus, JobStatus

#: Seconds between reloads.
RELOAD_S = 2

STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 64rem; padding: 0 1rem; }
h1 { font-size: 1.4rem; margin: 0 0 .2rem; }
h2 { font-size: 1.05rem; margin: 2rem 0 .4rem; }
p { margin: .2rem 0; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .3rem .8rem .3rem 0; border-bottom: 1px solid #8884; vertical-align: top; }
th { font-weight: 600; }
td.number, th.number { text-align: right; }
.failed { color: #b3261e; }
@media (prefers-color-scheme: dark) { .failed { color: #f2b8b5; } }
"""


def render(status: JobStatus) -> str:
    """The page for `status`; every text that came from outside is escaped."""
    remaining = "" if status.remaining is None else f", {status.remaining:,} to go"
    stopping = "<p>stopping</p>" if status.stopping else ""
    return (
        "<!doctype html><html lang=en><head><meta charset=utf-8>"
        f'<meta http-equiv="refresh" content="{RELOAD_S}">'
        '<meta name="viewport" content="width=device-width">'
        f'<title>{escape(status.name)}</title><link rel="stylesheet" href="/style.css"></head><body>'
        f"<h1>{escape(status.name)}</h1>"
        f"<p>{status.processed:,} messages processed{remaining}, {status.commits:,} commits</p>{stopping}"
        f"{_promises(status)}{_clocks(status.clocks)}{_containers(status.containers)}{_standbys(status.standbys)}{_partitions(status.containers)}{_restores(status)}{_failures(status)}"
        "</body></html>"
    )


def _promises(status: JobStatus) -> str:
    rows = [(downgrade.key, downgrade.message) for downgrade in status.downgrades]
    counted = [(what, status.counts[name]) for name, what in COUNTS.items() if name in status.counts]
    return _table("Weaker than the guarantee", ("key", "what it does"), rows) + _table(
        "Counted", ("what", "how many"), counted
    )


def _clocks(clocks: ClockStatus) -> str:
    if clocks.job is None and all(task_progress.clock is None for task_progress in clocks.tasks.values()):
        return ""
    stalled = f"<p class=failed>{escape(str(clocks.stalled))}</p>" if clocks.stalled else ""
    own = f", all states of {as_text(clocks.checkpoint)}" if clocks.checkpoint is not None else ""
    rows = [
        (
            task,
            as_text(task_progress.clock),
            "idle" if task_progress.idle else task_progress.held_by,
            _newest(task_progress),
        )
        for task, task_progress in sorted(clocks.tasks.items())
    ]
    heads = ("task", "clock", "held by", "newest state")
    return f"<h2>Event time</h2><p>{as_text(clocks.job)}{own}</p>{stalled}{_table('Clocks', heads, rows)}"


def _newest(task_progress: TaskProgress) -> str:
    return as_text(task_progress.checkpoints[-1]) if task_progress.checkpoints else ""


def _containers(containers: Iterable[ContainerStatus]) -> str:
    rows = ((c.id, c.state, c.phase, c.attempts, c.processed, c.commits, _restoring(c.restoring)) for c in containers)
    return _table("Containers", ("container", "state", "phase", "attempts", "messages", "commits", "restoring"), rows)


def _standbys(standbys: Iterable[ContainerStatus]) -> str:
    rows = ((c.id, c.state, c.phase, c.attempts, "" if c.remaining is None else c.remaining) for c in standbys)
    return _table("Standbys", ("container", "state", "phase", "attempts", "records to go"), rows)


def _partitions(containers: Iterable[ContainerStatus]) -> str:
    rows = [
        (c.id, ssp, offset, max(0, c.ends[ssp] - offset) if ssp in c.ends else "")
        for c in containers
        for ssp, offset in sorted(c.positions.items())
    ]
    return _table("Partitions", ("container", "partition", "next offset", "to go"), rows)


def _restores(status: JobStatus) -> str:
    rows = [(r.container_id, r.store, r.records, f"{r.seconds:.2f}", r.source) for r in reversed(status.restored)]
    return _table("Restores", ("container", "store", "records", "seconds", "from"), rows[:50])


def _failures(status: JobStatus) -> str:
    rows = [(f.container_id, f.epoch, f"{f.error}: {f.message}") for f in reversed(status.failures)]
    return _table("Failures", ("container", "epoch", "reason"), rows[:50])


def _restoring(progress: tuple[int, int] | None) -> str:
    return "" if progress is None else f"{progress[0]:,} of {progress[1]:,}"


def _table(title: str, heads: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> str:
    body = "".join("<tr>" + "".join(map(_cell, row)) + "</tr>" for row in rows)
    if not body:
        return ""
    head = "".join(f"<th>{escape(name)}</th>" for name in heads)
    return f"<h2>{escape(title)}</h2><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: object) -> str:
    if isinstance(value, int):
        return f'<td class="number">{value:,}</td>'
    return f"<td>{escape(str(value))}</td>"
