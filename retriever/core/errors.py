"""Every error a user can meet: what happened, what to do next, and the exit code it ends a command with."""


class RetrieverError(Exception):
    """Base of all errors raised on purpose.

    >>> error = UsageError("k is 0.", hint="Ask for at least 1 hit.")
    >>> isinstance(error, RetrieverError), str(error), error.exit_code
    (True, 'k is 0. Ask for at least 1 hit.', 2)

    Args:
        message: what happened, naming the file, line or id concerned.
        hint: the next step, one sentence.
    """

    exit_code = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()


class UsageError(RetrieverError):
    """An option or argument makes no sense (exit code 2)."""

    exit_code = 2


class FilterError(UsageError):
    """A ``--where`` expression cannot be parsed or names an unknown field."""


class ConsentError(UsageError):
    """Texts would be sent to another machine, ``host``, and nobody allowed that."""

    def __init__(self, message: str, *, hint: str = "", host: str = "") -> None:
        super().__init__(message, hint=hint)
        self.host = host


class ReadingLimitError(UsageError):
    """A language model would be asked about more than a limit allows; what was answered before is kept."""


class InputError(RetrieverError):
    """An input file cannot be read at all; single bad rows go to quarantine instead."""


class OutputError(RetrieverError):
    """A file that was asked for cannot be written; one that has a name it cannot have is wrong usage instead."""


class EncoderError(RetrieverError):
    """An encoder is unknown, cannot be loaded, or was asked for something it cannot do."""


class EndpointError(EncoderError):
    """An encoder's endpoint cannot be asked, or sends something else than was asked for; what is stored stays."""


class CheckpointError(EncoderError):
    """A checkpoint or a converted model differs from what its manifest says."""


class EncoderMismatchError(EncoderError):
    """An index was made by another encoder than the one at hand."""


class TrainingError(RetrieverError):
    """Training cannot go on; checkpoints written so far are kept."""


class TrainingInterrupted(RetrieverError):  # noqa: N818 - what the user asked for is no error
    """Training was interrupted by the user, its state saved (exit code 130)."""

    exit_code = 130


class IndexNotFoundError(RetrieverError):
    """There is no index at the given path."""


class IndexLockedError(RetrieverError):
    """Another process is writing to the index."""


class BusyError(RetrieverError):
    """A server of several clients has too much to do at the moment; the same request can be made again."""


class OverloadedError(BusyError):
    """So much waits that more would not be done in useful time; ask again when some of it is done."""


class SchemaError(RetrieverError):
    """The index was written by another version of retriever, older or newer."""


class IndexDamagedError(RetrieverError):
    """A stored file differs from its checksum or cannot be read (exit code 4)."""

    exit_code = 4
