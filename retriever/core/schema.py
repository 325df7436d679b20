"""The version of the JSON that commands print with ``--json``, and of the files that hold it."""

SCHEMA_VERSION = 1
