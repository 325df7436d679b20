"""Asking language models about the texts of an index: one object (`asker.Asker`), permission and memory in it.

Every path to an endpoint leads through that. `consent` holds whom a person allowed to get texts, `limits` how much may
be asked. Only a command that names the question asks; nothing here is called by indexing, upkeep or opening.
"""
