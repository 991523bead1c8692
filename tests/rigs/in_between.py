"""Races that happen for certain: what another does between two steps of the code under test."""


def first(monkeypatch, owner, name, happens):
    """Have `happens` called once, before the next call of this function of `owner`."""
    pending, call = [happens], getattr(owner, name)

    def after(*arguments, **more):
        while pending:  # taken before its call: it may make the same call
            pending.pop()()
        return call(*arguments, **more)

    monkeypatch.setattr(owner, name, after)
