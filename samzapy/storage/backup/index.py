"""What one snapshot consists of."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from samzapy.storage.marker import Marker
from samzapy.strict_json import check_format, mapping, parsed, text, whole

FORMAT = 1
_CHUNK_BYTES = 1_048_576


@dataclass(frozen=True)
class SnapshotFile:
    """A file of a store: the hash of its contents, and its size in bytes."""

    digest: str
    size: int

    @property
    def name(self) -> str:
        """What it is called among the files of all snapshots."""
        return f"{self.digest}-{self.size}"

    @classmethod
    def of(cls, path: Path) -> SnapshotFile:
        """Of a file as it is now."""
        digest, size = hashlib.blake2b(digest_size=20), 0
        with path.open("rb") as data:
            while chunk := data.read(_CHUNK_BYTES):
                digest.update(chunk)
                size += len(chunk)
        return cls(digest.hexdigest(), size)


@dataclass(frozen=True)
class SnapshotIndex:
    """One snapshot: how far the store was, and its files by their names in the store's directory."""

    marker: Marker
    files: Mapping[str, SnapshotFile]

    @property
    def name(self) -> str:
        """Names sort by time. Not by offset: a changelog that was made anew begins with small ones."""
        return f"{self.marker.time_ms:015d}-{self.marker.changelog_offset}.json"

    def to_bytes(self) -> bytes:
        """As JSON, on the line below its own hash."""
        body = json.dumps(
            {
                "format": FORMAT,
                "marker": self.marker.to_bytes().decode(),
                "files": {name: [file.digest, file.size] for name, file in self.files.items()},
            },
            separators=(",", ":"),
        ).encode()
        return hashlib.blake2b(body, digest_size=20).hexdigest().encode() + b"\n" + body

    @classmethod
    def from_bytes(cls, data: bytes) -> SnapshotIndex:
        """The inverse of `to_bytes`. Raises ValueError for anything else, a part of an index included."""
        digest, _, body = data.partition(b"\n")
        if hashlib.blake2b(body, digest_size=20).hexdigest().encode() != digest:
            raise ValueError("not a whole index")
        try:
            read = parsed(body)
            check_format(read, FORMAT)
            files = {
                _plain(name): SnapshotFile(text(digest), whole(size))
                for name, (digest, size) in mapping(read["files"]).items()
            }
            return cls(Marker.from_bytes(text(read["marker"]).encode()), files)
        except (KeyError, TypeError) as cause:
            raise ValueError(f"not an index: {body[:80]!r}") from cause


def _plain(name: str) -> str:
    """A name that stays in the store's directory."""
    if not name or "/" in name or "\\" in name or name in {".", ".."}:
        raise ValueError(f"{name!r} is no name of a store's file")
    return name
