from __future__ import annotations

from pathlib import Path

import pytest

from samzapy.errors import TaskFailed
from samzapy.testing import TestRunner

JOB = Path(__file__).parents[3] / "configs" / "payments.properties"
#: What the broadcast table says at last: the first rates are not today's.
RATES = [("USD", {"euros": 0.5}), ("USD", {"euros": 0.9}), ("CHF", {"euros": 1.1})]
KEYS = {"stores.rates.factory": "memory"}


def paid(amount, currency):
    return {"amount": amount, "currency": currency}


def run(payments, refunds=()):
    job = TestRunner.of(JOB).with_config(KEYS).with_input("rates", RATES)
    return job.with_input("payments", payments, 2).with_input("refunds", refunds, 2).run()


def test_every_payment_is_converted_with_the_newest_rate_that_there_was_at_the_start():
    done = run([("ann", paid(10, "USD")), ("bob", paid(5, "CHF"))])
    assert sorted(done.outputs("payments-in-euros").pairs) == [
        ("ann", {"what": "payments", "euros": 9.0}),
        ("bob", {"what": "payments", "euros": 5.5}),
    ]


def test_refunds_go_first():
    done = run([("ann", paid(n, "USD")) for n in range(20)], [("ann", paid(n, "USD")) for n in range(20)])
    assert [each["what"] for each in done.outputs("payments-in-euros").messages] == ["refunds"] * 20 + ["payments"] * 20


def test_a_currency_that_is_not_in_the_table_ends_the_attempt():
    with pytest.raises(TaskFailed, match="no rate for 'XXX'"):
        run([("ann", paid(1, "XXX"))])
