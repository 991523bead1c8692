"""Which calls a producer may take: the order init_transactions, begin, send, commit or abort, in one place."""

from __future__ import annotations

from samzapy.errors import ProducerError


class ProducerCalls:
    """Where a producer stands between its calls; a call out of order is a ProducerError that names the producer."""

    __slots__ = ("in_transaction", "initialised", "name", "transactional")

    def __init__(self, system: str, transactional_id: str | None) -> None:
        owner = "" if transactional_id is None else f" '{transactional_id}'"
        self.name = f"the producer{owner} of system '{system}'"
        self.transactional = transactional_id is not None
        self.initialised = False
        self.in_transaction = False

    def must_take_records(self) -> None:
        """A transactional producer sends inside a transaction only."""
        if self.transactional and not self.in_transaction:
            raise ProducerError(f"send: {self.name} is outside a transaction, call begin first")

    def must_be_new(self) -> None:
        """Transactions are initialised once, and only if there is an id for them."""
        if not self.transactional or self.initialised:
            state = "is initialised already" if self.transactional else "has no transactional id"
            raise ProducerError(f"init_transactions: {self.name} {state}")

    def must_be_between_transactions(self) -> None:
        """One transaction at a time."""
        if not self.initialised or self.in_transaction:
            state = "is in a transaction already" if self.in_transaction else "needs init_transactions first"
            raise ProducerError(f"begin: {self.name} {state}")

    def must_be_in_transaction(self, call: str) -> None:
        """What `commit` and `abort` need."""
        if not self.in_transaction:
            raise ProducerError(f"{call}: {self.name} is in no transaction")
