"""The job `last_and_count` over a Kafka input that a test writes, for the clusters of the tests: its start, and what
must come out."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rigs.job_process import JobProcess
from rigs.numbered_stream import KEYS, STORES, Streams, expected, kafka_job, key_of, settings_of

from samzapy.api.system import OutgoingRecord, StreamSpec

CODE = Path(__file__).parents[1] / "jobs" / "last_and_count.py"


class NumberedJob:
    """The job file `job.properties` in `folder`, and its streams of `partitions` each; `keys` are added to the
    job's."""

    def __init__(self, folder: Path, name: str, bootstrap: str, partitions: int, **keys: str) -> None:
        self.folder, self.name = folder, name
        job = kafka_job(name, bootstrap, **keys)
        (folder / "job.properties").write_text("".join(f"{key}={value}\n" for key, value in job.items()))
        self.streams = Streams(settings_of(job, "kafka"))
        for stream in ("in", "out"):
            self.streams.admin.create(StreamSpec(f"{name}-{stream}", partitions))
        self.written = 0

    def write(self, count: int = 2 * KEYS) -> None:
        """The next numbers into the input."""
        producer = self.streams.producer()
        numbers = range(self.written, self.written + count)
        producer.send([OutgoingRecord(f"{self.name}-in", key_of(n).encode(), b"%d" % n) for n in numbers])
        producer.flush()
        producer.close()
        self.written += count

    def start(self, *arguments: str, **environ: str) -> JobProcess:
        """`samzapy run` with the code of the task."""
        return JobProcess(self.folder, "job.properties", "--py-files", str(CODE), *arguments, **environ)

    def at_end(self) -> Callable[[dict[str, Any]], bool]:
        """Says of a status whether every container runs and has processed all that is written by now."""
        ends = self.streams.ends(f"{self.name}-in")

        def look(status: dict[str, Any]) -> bool:
            positions = {ssp: at for each in status["containers"] for ssp, at in each["positions"].items()}
            all_running = all(each["phase"] == "running" for each in status["containers"])
            return all_running and all(positions.get(ssp, 0) >= end for ssp, end in ends.items())

        return look

    def check(self) -> None:
        """Changelogs and outputs hold what a run without any failure would have made."""
        last, counts = expected(self.written)
        contents = {}
        for store in STORES:
            replayed = self.streams.replay(f"{self.name}-{store}-changelog")
            contents[store] = {key.decode(): int(value) for part in replayed for key, value in part.items()}
        assert contents["last"] == last
        assert contents["counts"] == counts
        outputs = Counter(int(value) for batch in self.streams.read(f"{self.name}-out") for value in batch.values)
        assert outputs == Counter(range(self.written))
