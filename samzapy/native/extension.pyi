from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

#: (topic, partition, offsets, keys, values, times, headers)
_Run: TypeAlias = tuple[
    str,
    int,
    Sequence[int],
    list[bytes | None],
    list[bytes | None],
    list[int],
    list[list[tuple[str, bytes | None]] | None] | None,
]
#: (code, text, topic, partition)
_Event: TypeAlias = tuple[int, str, str, int]

SOURCES: str
LIBRDKAFKA_FUNCTIONS: tuple[str, ...]

def bind_librdkafka(addresses: Mapping[str, int], /) -> None: ...

class FetchQueue:
    def __init__(self, consumer: Any, on_error: Callable[[int, str], object], headers: bool = True) -> None: ...
    def follow(self, topic: str, partition: int, /) -> None: ...
    def take(self, most: int, wait_ms: int, /) -> tuple[list[_Run], list[_Event]]: ...
    def close(self) -> None: ...

class ProduceQueue:
    def __init__(self, producer: Any, wants_offsets: bool) -> None: ...
    def put(
        self,
        topic: str,
        first: int,
        numbers: int | Sequence[int],
        keys: Sequence[bytes | None] | None,
        values: Sequence[bytes | None],
        times: Sequence[int | None] | None,
        headers: Sequence[Sequence[tuple[str, bytes | None]] | None] | None,
        /,
    ) -> tuple[int, int]: ...
    def failures(self) -> list[tuple[int, str, int, int]]: ...
    def offsets(self) -> list[tuple[str, int, int]]: ...
    def pause(self, counts: Mapping[str, int], on: bool, /) -> None: ...
    def clear(self) -> None: ...

class NativeEntries:
    _held: dict[Any, Any]
    _dirty: dict[Any, int]
    _used: dict[Any, None] | None
    _usual: type | None
    _gets: int
    _changed: int
    _cache_size: int
    _most_dirty: int
    def get(self, key: Any, /) -> Any: ...
    def put(self, key: Any, value: Any, /) -> None: ...
    def _find(self, entries: list[Any], /) -> tuple[list[Any], list[int]]: ...
    def _set_some(self, entries: list[Any], values: list[Any], /) -> None: ...
