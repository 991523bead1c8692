"""Writes the inputs of a job of the gallery, on the system that its file names.

python -m samzapy.examples.gallery.load JOB.properties [--config key=value]...

The events are random: the same seed gives the same events on every machine. The lists are in the order of arrival.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from random import Random
from uuid import UUID

from samzapy.errors import EnvironmentFailure
from samzapy.examples.flights.load import Event, load_command

#: 2026-01-05T00:00:00Z, a Monday.
START_MS = 1_767_571_200_000
SECOND_MS, MINUTE_MS, HOUR_MS, DAY_MS = 1_000, 60_000, 3_600_000, 86_400_000
_PAGES = [f"/p/{number:02}" for number in range(50)]


def page_views(count: int = 20_000, seed: int = 7, users: int = 200) -> list[Event]:
    """The first `count` page views, keyed by user. A phone may be offline for a while."""
    drawn = Random(seed)
    views = [view for user in range(users) for view in _views_of(f"user-{user:04}", count // users + 1, drawn)]
    return [view for _, view in sorted(views, key=lambda arrival: arrival[0])][:count]


def _views_of(user: str, count: int, drawn: Random) -> Iterator[tuple[int, Event]]:
    """`count` views with their times of arrival: visits of some minutes, with hours between them."""
    time_ms = 1_700_000_000_000 + drawn.randrange(12 * HOUR_MS)
    for _ in range(count):
        leaves = drawn.random() < 0.1
        time_ms += drawn.randrange(HOUR_MS, 12 * HOUR_MS) if leaves else drawn.randrange(5, 600) * SECOND_MS
        # One in a hundred waits until the phone is online again.
        delay_ms = drawn.randrange(5 * HOUR_MS) if drawn.random() < 0.01 else drawn.randrange(120 * SECOND_MS)
        yield time_ms + delay_ms, Event(user, {"page": drawn.choice(_PAGES)}, time_ms)


def card_events(cards: int = 400, seed: int = 7) -> list[Event]:
    """A day of payments and confirmations, keyed by card. One payment in eight is large, and one in twenty of these
    stays without a confirmation."""
    drawn = Random(seed)
    events: list[Event] = []
    for number in range(cards):
        card = f"card-{number:04}"
        for place in range(drawn.randrange(4, 12)):
            name, time_ms = f"{card}-{place}", START_MS + drawn.randrange(DAY_MS)
            cents = drawn.randrange(50_000, 200_000) if drawn.random() < 1 / 8 else drawn.randrange(50, 30_000)
            events.append(Event(card, {"type": "payment", "id": name, "card": card, "cents": cents}, time_ms))
            if cents >= 50_000 and drawn.random() < 0.95:
                after_ms = int(drawn.expovariate(1 / 70)) * SECOND_MS
                events.append(Event(card, {"type": "confirmation", "payment": name}, time_ms + after_ms))
    return sorted(events, key=lambda event: event.time_ms)


_CATEGORIES = ("books", "food", "games", "garden", "music")


def shop_orders(count: int = 4_000, seed: int = 7, shoppers: int = 250) -> list[Event]:
    """Orders of sixty days, keyed by shopper. Some shoppers order every week, most of them rarely, some no longer."""
    drawn = Random(seed)
    names = [f"shopper-{number:03}" for number in range(shoppers)]
    weights = [drawn.paretovariate(1.2) for _ in names]
    leaves = [drawn.randrange(5, 120) * DAY_MS for _ in names]
    events: list[Event] = []
    while len(events) < count:
        (number,) = drawn.choices(range(shoppers), weights)
        after_ms = drawn.randrange(60 * DAY_MS)
        if after_ms < leaves[number]:
            order = {"cents": int(drawn.lognormvariate(8, 0.8)), "category": drawn.choice(_CATEGORIES)}
            events.append(Event(names[number], order, START_MS + after_ms))
    return sorted(events, key=lambda event: event.time_ms)


_COUNTRIES, _PLANS = ("BR", "DE", "IN", "JP", "NO"), ("free", "basic", "pro")


def customer_changes(seed: int = 7, customers: int = 200, changes: int = 150) -> list[Event]:
    """The table's rows (`r`), then its changes: updates (`u`), new rows (`c`), and deletions (`d`, then a message
    without a value)."""
    drawn = Random(seed)
    events = [Event(str(number), _change("r", number, drawn), START_MS) for number in range(customers)]
    for place in range(changes):
        number, time_ms = drawn.randrange(customers + 20), START_MS + (place + 1) * MINUTE_MS
        if drawn.random() < 0.1:
            events += [Event(str(number), {"op": "d", "after": None}, time_ms), Event(str(number), None, time_ms)]
        else:
            events.append(Event(str(number), _change("u" if number < customers else "c", number, drawn), time_ms))
    return events


def _change(operation: str, number: int, drawn: Random) -> dict[str, object]:
    (plan,) = drawn.choices(_PLANS, (6, 3, 1))
    row = {"name": f"Customer {number}", "country": drawn.choice(_COUNTRIES), "plan": plan}
    return {"op": operation, "after": row, "source": {"table": "customers"}, "ts_ms": START_MS}


def customers_orders(seed: int = 7, count: int = 2_000) -> list[Event]:
    """Orders, keyed by customer; the table does not have all of these customers."""
    drawn = Random(seed)
    orders = [(str(drawn.randrange(225)), int(drawn.lognormvariate(8, 0.7))) for _ in range(count)]
    return [
        Event(customer, {"id": f"order-{number:04}", "cents": cents}, START_MS + number * 10 * SECOND_MS)
        for number, (customer, cents) in enumerate(orders)
    ]


def repeated_orders(count: int = 1_500, seed: int = 7) -> list[Event]:
    """Orders of a producer that has lost acknowledgements: it sends up to a hundred of its last orders again."""
    drawn = Random(seed)
    keys = [str(UUID(int=drawn.getrandbits(128), version=4)) for _ in range(count)]
    totals = [drawn.randrange(1, 200) for _ in keys]
    arrived: list[Event] = []
    at = 0
    while at < count:
        end = min(at + drawn.randrange(50, 200), count)
        for number in range(at, end):
            time_ms = START_MS + len(arrived) * SECOND_MS
            arrived.append(Event(keys[number], {"total": totals[number]}, time_ms))
        at = end if end == count else end - drawn.choice((0, 0, drawn.randrange(1, 100)))
    return arrived


#: By job name: the streams, and the functions that make their events.
_INPUTS: Mapping[str, Mapping[str, Callable[[], list[Event]]]] = {
    "visits": {"views": page_views},
    "card-fraud": {"card-events": card_events},
    "shopper-features": {"shop-orders": shop_orders},
    "customer-orders": {"customers": customer_changes, "customers-orders": customers_orders},
    "unique-orders": {"orders": repeated_orders},
}


def inputs_of(job: str) -> list[tuple[str, list[Event]]]:
    """The streams of a job with their events. Raises EnvironmentFailure for a job that is not in the gallery."""
    if job not in _INPUTS:
        raise EnvironmentFailure(f"no inputs for job '{job}'; known: {', '.join(_INPUTS)}")
    return [(stream, events()) for stream, events in _INPUTS[job].items()]


if __name__ == "__main__":
    sys.exit(load_command("gallery.load", lambda job: inputs_of(job.name)))
