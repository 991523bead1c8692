"""`streams.*`, `systems.*` and `serializers.*`: the streams that messages come from and go to."""

from samzapy.config.streams.stream import StreamConfig

__all__ = ["StreamConfig"]
