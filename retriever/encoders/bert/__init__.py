"""Sentence-transformers models of the BERT family, read without that package: few texts with NumPy, many with torch.

`layout` tells whether a folder is such a model, `encoder` reads texts with it; `arrays` and `tensors` are its two ways.
"""
