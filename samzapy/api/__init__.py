"""The names of stream processing, as samzapy uses them: interfaces and values, standard library only.

Everything above implements or calls what is written here; nothing here knows who.
"""
