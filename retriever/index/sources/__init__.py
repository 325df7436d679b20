"""Sources of instructions: vectors that an encoder reads out of texts, that are made of other vectors, or given.

`source` is the interface, each kind a file with a row in `catalog.KINDS`. `catalog` says which source serves an
instruction, `filling` embeds what several of them lack in one pass an encoder, `encoders` has the two encoders.
Nothing outside this room asks of which kind a source is.
"""
