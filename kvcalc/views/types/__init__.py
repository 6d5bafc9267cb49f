"""The documents of --json as types, so that mypy holds each key; `views.schema` writes the JSON Schemas from them.

A key says its unit: bytes are ints, seconds are floats, contexts and capacities are tokens, `gpus` and the sizes of a
split are counts; a comment stands where that is not enough. None is what was not asked or is not known. Keys never
change meaning within `/1`. A start imports none of this, only the type checker does.
"""
