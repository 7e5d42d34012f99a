"""What is saved and loaded: a model is a folder of named arrays and metadata, whatever kind of
model it is.

    model.json            format, versions, metadata, and the size and SHA-256 of the weights
    weights.safetensors   every array; lists of strings and sparse matrices are packed into plain
    arrays

Nothing is pickled, the same model always gives the same bytes, and a folder is either complete or
not there.
"""
