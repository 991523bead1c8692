"""Snapshots of a store's files on a file system elsewhere, so that a restore reads only the changelog's tail.

Below `<backup.path>/<job>/<store>/<task>`:

    files/<hash>-<size>          the files of all snapshots, named by their contents: each is uploaded once
    index/<time>-<offset>.json   one snapshot: its marker and the names of its files; written last

The changelog stays the source of truth: a snapshot that is torn, damaged, foreign or too old is skipped.
"""
