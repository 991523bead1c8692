"""A broker inside the process, for tests: offsets with holes, compaction, transactions and fencing as Kafka has them."""

from samzapy.system.memory.factory import MemorySystemFactory

__all__ = ["MemorySystemFactory"]
