"""Asking language models about the texts of an index: one object (`asker.Asker`), permission and memory in it.

Every path to an endpoint leads through this room. `consent` holds whom a person allowed to get texts, `limits` how much
may be asked, `door` lets texts out to an encoder. Only a command that names the question asks a language model;
indexing, upkeep and opening call nothing here but the door.
"""
