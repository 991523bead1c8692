"""Sessions without a product: for the answers that windows are compared with."""


def sessions_of(times, gap):
    """Sorted (time, value) pairs, cut where the gap is."""
    cut = []
    for each in sorted(times):
        if cut and each[0] - cut[-1][-1][0] < gap:
            cut[-1].append(each)
        else:
            cut.append([each])
    return cut
