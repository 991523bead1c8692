"""Checks the order of a producer's calls: init_transactions, begin, send, commit or abort, and none after an error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from samzapy.errors import ProducerError, ProducerFenced, SamzapyError, TransactionIndeterminate

#: An abort does not heal these: another producer has taken over, or the outcome is unknown.
_FINAL = (ProducerFenced, TransactionIndeterminate)


class ProducerCalls:
    """The state of a producer between its calls. A call out of order is a ProducerError that names the producer.

    `error` has poisoned the producer: every later call raises it again, until an abort heals it.
    """

    __slots__ = ("closed", "error", "in_transaction", "initialised", "name", "transactional")

    def __init__(self, system: str, transactional_id: str | None) -> None:
        owner = "" if transactional_id is None else f" '{transactional_id}'"
        self.name = f"the producer{owner} of system '{system}'"
        self.transactional = transactional_id is not None
        self.initialised = False
        self.in_transaction = False
        self.error: SamzapyError | None = None
        self.closed = False

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """A context around every call: refuses it on a poisoned or closed producer, and poisons the producer if it
        fails."""
        self._raise_again()
        if self.closed:
            raise ProducerError(f"{self.name} is closed")
        try:
            yield
        except SamzapyError as error:
            self.error = error
            raise
        except BaseException as error:
            # After an interrupt, too: the records of the call may no longer be in any queue.
            self.error = ProducerError(f"{self.name} failed ({type(error).__name__}: {error})")
            raise

    def heal(self) -> None:
        """Begin an abort. Raises the error again if an abort cannot heal it."""
        if isinstance(self.error, _FINAL):
            self._raise_again()
        self.error = None

    def _raise_again(self) -> None:
        if self.error is not None:
            raise self.error.with_traceback(None)

    def must_take_records(self) -> None:
        """A transactional producer sends inside a transaction only."""
        if self.transactional and not self.in_transaction:
            raise ProducerError(f"send: {self.name} is outside a transaction, call begin first")

    def must_be_new(self, call: str) -> None:
        """For calls that come before all transactions: these are initialised once, and only if there is an id for
        them."""
        if not self.transactional or self.initialised:
            state = "is initialised already" if self.transactional else "has no transactional id"
            raise ProducerError(f"{call}: {self.name} {state}")

    def must_be_between_transactions(self) -> None:
        """One transaction at a time."""
        if not self.initialised or self.in_transaction:
            state = "is in a transaction already" if self.in_transaction else "needs init_transactions first"
            raise ProducerError(f"begin: {self.name} {state}")

    def must_be_in_transaction(self, call: str) -> None:
        """`commit` and `abort` end an open transaction."""
        if not self.in_transaction:
            raise ProducerError(f"{call}: {self.name} is in no transaction")
