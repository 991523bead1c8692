"""The changes, by the package they are in."""

from __future__ import annotations

from tests.mutants.trial import Mutant

_DISTURBED = "tests/integration/test_disturbed_producer.py"
_LOCAL = "tests/unit/system/test_local_system.py"

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "samzapy/spark/partition_writer.py",
        "            producer.init_transactions()\n            ownership.look()\n",
        "            producer.init_transactions()\n",
        ("tests/unit/spark/test_partition_writes.py",),
    ),
    Mutant(
        "samzapy/container/ownership.py",
        'return asked is not None and asked.get("run") == self._run_id',
        "return asked is not None",
        ("tests/unit/runner/test_drain_request.py",),
    ),
    Mutant(
        "samzapy/system/local/transactions.py",
        "WHERE transactional_id = ? AND deadline_ms IS NULL",
        "WHERE transactional_id = ?",
        (_LOCAL,),
    ),
    Mutant(
        "samzapy/system/kafka/producer.py",
        "        if self.took_over:\n",
        "        if False:\n",
        (_DISTURBED,),
    ),
    Mutant(
        "samzapy/system/kafka/producer.py",
        "self.took_over = self._alarms.disturbed",
        "self.took_over = False",
        (_DISTURBED,),
    ),
)
