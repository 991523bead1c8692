"""Fills the stores of a container's tasks that have streams instead of a changelog, by the user's processors."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from samzapy.api.stream import SystemStream
from samzapy.api.system import SystemConsumer
from samzapy.api.task import SideInputsProcessor
from samzapy.clock import Clock
from samzapy.config.job import JobConfig
from samzapy.config.stores.sources import RESTORE_PROCESSOR, SIDE_PROCESSOR
from samzapy.container.inputs.decode import Decoder
from samzapy.container.sideinputs.catch_up import catch_up
from samzapy.container.sideinputs.restore import SideInputRestore
from samzapy.container.sideinputs.side_inputs import NoSideInputs, SideInputs
from samzapy.errors import ConfigError, ConfigProblem
from samzapy.plugins import PluginError, load_class
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
) -> NoSideInputs:
    """Read the streams of the stores that have some, `stores` being by task, and add the counts to `restored`.

    Returns the side inputs to follow. Raises TaskFailed or SerdeError for a message that cannot
    be processed, RestoreError when a stream cannot be read to its bound, RestoreStopped once it `should_stop`.
    """
    if not any(opened.sourced for opened in stores.values()):
        return NoSideInputs()
    processors = load_processors(config)
    streams = {stream for store in config.stores.values() if store.source for stream in store.source.all_streams}
    decoders = {stream: decoder_of(stream) for stream in streams}
    fillers = {
        (task, name): SideInputRestore(task, store, processors[name](), decoders, clock)
        for task, opened in stores.items()
        for name, store in opened.sourced.items()
    }
    job, began = config.context, clock.monotonic()
    for filler in fillers.values():
        filler.init(job)
    catch_up(list(fillers.values()), consumer_of, clock, on_progress, should_stop)
    seconds = clock.monotonic() - began
    for (task, name), filler in fillers.items():
        stores[task].restored[name] = filler.result(stores[task].restored[name], seconds)
    followed = [filler for filler in fillers.values() if filler.followed]
    return SideInputs(followed, consumer_of, clock, config.task.commit_ms) if followed else NoSideInputs()


def load_processors(config: JobConfig) -> Mapping[str, type[SideInputsProcessor]]:
    """The class of every store that is filled from streams. Raises ConfigError with every one that cannot be made."""
    found: dict[str, type[SideInputsProcessor]] = {}
    problems = []
    for store in config.stores.values():
        if store.source is None:
            continue
        key = (RESTORE_PROCESSOR if store.source.replayed else SIDE_PROCESSOR).at(store=store.name)
        try:
            loaded = load_class(store.source.processor)
        except PluginError as cause:
            problems.append(ConfigProblem(key, store.source.processor, str(cause)))
            continue
        if not issubclass(loaded, SideInputsProcessor) or getattr(loaded, "__abstractmethods__", False):
            problems.append(
                ConfigProblem(
                    key, store.source.processor, "must be a SideInputsProcessor that defines process(message, store)"
                )
            )
            continue
        found[store.name] = loaded
    if problems:
        raise ConfigError(problems)
    return found
