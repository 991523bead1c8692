"""Keeps epochs and open transactions. Every function runs inside the caller's write, except `end_overdue`."""

from __future__ import annotations

from samzapy.errors import ProducerFenced
from samzapy.system.embedded.producer import ProducerIdentity
from samzapy.system.local.database import Database

_OVERDUE = "SELECT transactional_id FROM producers WHERE deadline_ms <= ?"


def take_over(database: Database, transactional_id: str, timeout_ms: int) -> ProducerIdentity:
    """Abort the open transaction of the id and start a new epoch."""
    _abort(database, transactional_id)
    database.execute(
        "INSERT INTO producers (transactional_id, epoch) VALUES (?, 1) "
        "ON CONFLICT (transactional_id) DO UPDATE SET epoch = epoch + 1, deadline_ms = NULL",
        (transactional_id,),
    )
    (epoch,) = database.execute(
        "SELECT epoch FROM producers WHERE transactional_id = ?", (transactional_id,)
    ).fetchone()
    return ProducerIdentity(transactional_id, epoch, timeout_ms)


def check_owner(database: Database, owner: ProducerIdentity) -> None:
    """Raise ProducerFenced unless the owner's epoch is the current one."""
    row = database.execute(
        "SELECT epoch FROM producers WHERE transactional_id = ?", (owner.transactional_id,)
    ).fetchone()
    if row is None or row[0] != owner.epoch:
        now = "unknown" if row is None else row[0]
        raise ProducerFenced(
            f"producer '{owner.transactional_id}' of epoch {owner.epoch} was fenced: the epoch is {now}"
        )


def note_write(database: Database, owner: ProducerIdentity, now_ms: int) -> None:
    """Start the time-out of the owner's transaction, if this is its first write."""
    database.execute(
        "UPDATE producers SET deadline_ms = ? WHERE transactional_id = ? AND deadline_ms IS NULL",
        (now_ms + owner.timeout_ms, owner.transactional_id),
    )


def commit(database: Database, owner: ProducerIdentity) -> None:
    """Make the transaction's records visible."""
    _close(database, owner.transactional_id)


def abort(database: Database, owner: ProducerIdentity) -> None:
    """Remove the transaction's records; their offsets stay holes."""
    _abort(database, owner.transactional_id)


def end_overdue(database: Database, now_ms: int) -> None:
    """Abort the transactions that are past their time-out and fence their producers, as Kafka's coordinator does.

    Makes a separate write, or only a read if there is none.
    """
    with database.read():
        if not database.execute(_OVERDUE, (now_ms,)).fetchone():
            return
    with database.write():
        for (name,) in database.execute(_OVERDUE, (now_ms,)).fetchall():
            _abort(database, name)
            database.execute("UPDATE producers SET epoch = epoch + 1 WHERE transactional_id = ?", (name,))


def _abort(database: Database, transactional_id: str) -> None:
    ranges = database.execute(
        "SELECT slot, first, end FROM open_ranges WHERE transactional_id = ?", (transactional_id,)
    ).fetchall()
    database.executemany("DELETE FROM records WHERE slot = ? AND position >= ? AND position < ?", ranges)
    _close(database, transactional_id)


def _close(database: Database, transactional_id: str) -> None:
    database.execute("DELETE FROM open_ranges WHERE transactional_id = ?", (transactional_id,))
    database.execute("UPDATE producers SET deadline_ms = NULL WHERE transactional_id = ?", (transactional_id,))
