"""Names of the training methods; importing them loads no model code."""

from enum import StrEnum


class Method(StrEnum):
    """How an encoder is trained."""

    INSTEMB = "instemb"
    GIRCSE = "gircse"
    INBEDDER = "inbedder"
    DICL = "dicl"
