"""Retriever as a part of other libraries: a module each, which loads its library; nothing is loaded before."""
