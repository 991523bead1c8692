"""What the steps of a pipeline do, to lists in plain Python. A row is (key, number, second); no code of the product."""

from collections import defaultdict


def numbers_by(rows, name):
    """The numbers of the rows of each `name(row)`."""
    result = defaultdict(list)
    for row in rows:
        result[name(row)].append(row[1])
    return dict(result)


def by_key(rows):
    return numbers_by(rows, lambda row: row[0])


def tumbling(rows, size):
    """The sum of each window, by key and first second."""
    sums = numbers_by(rows, lambda row: (row[0], row[2] // size * size))
    return {place: sum(numbers) for place, numbers in sums.items()}


def hopping(rows, size, hop):
    """The sum of each window, by key and first second; a row is in several."""
    starts = [(row, start) for row in rows for start in range(-size, row[2] + 1) if start % hop == 0]
    inside = [((row[0], start), row[1], 0) for row, start in starts if start <= row[2] < start + size]
    return {place: sum(numbers) for place, numbers in numbers_by(inside, lambda row: row[0]).items()}


def sliding(rows, size):
    """The sum of the `size` seconds up to each row, by key and last second."""
    return {
        (key, last): sum(n for k, n, second in rows if k == key and last - size < second <= last)
        for key, _, last in rows
    }


def sessions(rows, gap):
    """The sum of each session, by key and first second."""
    result, begun = {}, {}
    for key, number, second in sorted(rows, key=lambda row: row[2]):
        start, last = begun.get(key, (second, second))
        if second - last >= gap:
            start = second
        begun[key] = start, second
        result[key, start] = result.get((key, start), 0) + number
    return result


def pairs(left, right, seconds, how):
    """The pairs of a key within some seconds, and what has no partner if `how` keeps it."""
    found = [
        (key, [one, two], (at, number))
        for at, (key, one, second) in enumerate(left)
        for number, (other, two, when) in enumerate(right)
        if key == other and abs(second - when) <= seconds
    ]
    met_left, met_right = ({places[side] for *_, places in found} for side in (0, 1))
    result = [(key, pair) for key, pair, _ in found]
    if how != "inner":
        result += [(key, [one, None]) for at, (key, one, _) in enumerate(left) if at not in met_left]
    if how == "outer":
        result += [(key, [None, two]) for at, (key, two, _) in enumerate(right) if at not in met_right]
    return result


def as_of(left, right):
    """Each left row with the last of the newest right rows of its key that are not younger."""
    result = []
    for key, number, second in left:
        older = [(when, place) for place, (other, _, when) in enumerate(right) if other == key and when <= second]
        result.append((key, [number, right[max(older)[1]][1] if older else None]))
    return result


def table(changes):
    """The newest row of each key, without those that are deleted."""
    return {key: row for key, row in dict(changes).items() if row is not None}


def join_tables(left, right, how):
    """The pairs of rows of one key."""
    keys = {"inner": left.keys() & right.keys(), "left": left.keys(), "outer": left.keys() | right.keys()}[how]
    return {key: [left.get(key), right.get(key)] for key in keys}


def join_by_foreign_key(left, right, how):
    """Each left row with the right row of the key in its field `f`."""
    joined = {key: [row, right.get(row["f"])] for key, row in left.items()}
    return {
        key: pair for key, pair in joined.items() if how == "left" or (pair[0]["f"] is not None and pair[1] is not None)
    }
