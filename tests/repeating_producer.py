"""What arrives of a producer that goes back again and again, as one does that has lost its acknowledgements."""


def sent_again(orders, pick):
    """All of `orders`, some up to a hundred places later once more; `pick` is a random.Random."""
    at, arrived = 0, []
    while at < len(orders):
        end = min(at + pick.randint(50, 200), len(orders))
        arrived += orders[at:end]
        at = end if end == len(orders) else end - pick.choice([0, 0, pick.randint(1, 100)])
    return arrived
