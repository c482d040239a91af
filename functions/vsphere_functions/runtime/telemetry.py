"""Log lines as JSON on stderr; who and where, never what a request carries."""

import logging
import sys
import traceback
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any

import structlog
from structlog.typing import EventDict, FilteringBoundLogger

_NAMES: ContextVar[dict[str, Any]] = ContextVar("names", default={})  # noqa: B039 - it is never changed, only replaced


def configure(level: int = logging.INFO) -> None:
    """Send log lines to stderr as JSON, one object a line, and with them the warnings of other people's libraries."""
    logging.basicConfig(handlers=[_Foreign()])
    structlog.configure(
        processors=[
            _named,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _unexpected,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=lambda *_: structlog.WriteLogger(sys.stderr),
        cache_logger_on_first_use=False,
    )


def log() -> FilteringBoundLogger:
    """Return the logger of the process."""
    logger: FilteringBoundLogger = structlog.get_logger()
    return logger


def about(**names: Any) -> AbstractContextManager[None]:
    """Put names (request, function, vcenter) on every line logged inside, also by the threads it starts work in."""
    return _About(names)


class _About(AbstractContextManager[None]):
    """A context by hand: structlog's own takes four times as long, which each request would pay."""

    def __init__(self, names: dict[str, Any]) -> None:
        self._names = names

    def __enter__(self) -> None:
        self._before = _NAMES.set(_NAMES.get() | self._names)

    def __exit__(self, *_: object) -> None:
        _NAMES.reset(self._before)


class _Foreign(logging.Handler):
    """Takes the first line of a record of the standard library; what follows can hold request data and is left out."""

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage().partition("\n")[0]
        log().log(record.levelno, text, logger=record.name, exc_info=record.exc_info and record.exc_info[1])


def _named(_logger: Any, _method: str, event: EventDict) -> EventDict:
    return {**_NAMES.get(), **event}


def _unexpected(_logger: Any, _method: str, event: EventDict) -> EventDict:
    """Show an exception by its type and frames; its message can hold request data and is left out."""
    error = event.pop("exc_info", None)
    error = sys.exc_info()[1] if error is True else error
    if isinstance(error, BaseException):
        event["exception"] = type(error).__qualname__
        event["frames"] = [line.strip() for line in traceback.format_tb(error.__traceback__)]
    return event
