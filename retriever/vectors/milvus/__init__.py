"""Milvus as a vector backend: a view is a collection on a server, for what one machine cannot hold.

`backend.MilvusBackend` builds, opens and removes collections, `building` makes one, `index.MilvusIndex` searches one,
`server` reaches a server, words its errors and lists its types of index.
"""
