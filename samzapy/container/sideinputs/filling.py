"""Fills the stores of a container's tasks, and says what follows their streams from then on."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from samzapy.api.context import JobContext
from samzapy.api.stream import SystemStream
from samzapy.api.system import SystemConsumer
from samzapy.clock import Clock
from samzapy.config.job import JobConfig
from samzapy.container.inputs.decode import Decoder
from samzapy.container.sideinputs.catch_up import catch_up
from samzapy.container.sideinputs.processors import load_processors
from samzapy.container.sideinputs.restore import SideInputRestore
from samzapy.container.sideinputs.side_inputs import SideInputs
from samzapy.storage.changelog.restore import ProgressCallback, ShouldStop, never
from samzapy.storage.task_stores import TaskStores


def fill_stores(
    config: JobConfig,
    stores: Mapping[str, TaskStores],
    decoder_of: Callable[[SystemStream], Decoder],
    consumer_of: Callable[[str], SystemConsumer],
    clock: Clock,
    on_progress: ProgressCallback | None = None,
    should_stop: ShouldStop = never,
) -> SideInputs | None:
    """Read the streams of the stores that have some, `stores` being by task, and add what was read to `restored`.

    Returns what follows side inputs, None if there are none. Raises TaskFailed or SerdeError for a message that cannot
    be processed, RestoreError when a stream cannot be read to its bound, RestoreStopped once it `should_stop`.
    """
    if not any(opened.sourced for opened in stores.values()):
        return None
    processors = load_processors(config)
    streams = {stream for store in config.stores.values() if store.source for stream in store.source.all_streams}
    decoders = {stream: decoder_of(stream) for stream in streams}
    fillers = {
        (task, name): SideInputRestore(task, store, processors[name](), decoders, clock)
        for task, opened in stores.items()
        for name, store in opened.sourced.items()
    }
    job, began = JobContext(config.name, config.id, config.resolved), clock.monotonic()
    for filler in fillers.values():
        filler.init(job)
    catch_up(list(fillers.values()), consumer_of, clock, on_progress, should_stop)
    seconds = clock.monotonic() - began
    for (task, name), filler in fillers.items():
        stores[task].restored[name] = filler.told(stores[task].restored[name], seconds)
    followed = [filler for filler in fillers.values() if filler.followed]
    return SideInputs(followed, consumer_of, clock, config.task.commit_ms) if followed else None
