"""`streams.*`, `systems.*` and `serializers.*`: where messages come from and go to."""

from samzapy.config.streams.stream import StreamConfig

__all__ = ["StreamConfig"]
