"""Log lines as JSON on stderr; who and where, never what a request carries."""

import logging
import sys
import traceback
from contextlib import AbstractContextManager
from typing import Any

import structlog
from structlog.contextvars import bound_contextvars
from structlog.typing import EventDict, FilteringBoundLogger


def configure(level: int = logging.INFO) -> None:
    """Send log lines to stderr as JSON, one object a line."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
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
    return bound_contextvars(**names)


def _unexpected(_logger: Any, _method: str, event: EventDict) -> EventDict:
    """Show an exception by its type and frames; its message can hold request data and is left out."""
    error = event.pop("exc_info", None)
    error = sys.exc_info()[1] if error is True else error
    if isinstance(error, BaseException):
        event["exception"] = type(error).__qualname__
        event["frames"] = [line.strip() for line in traceback.format_tb(error.__traceback__)]
    return event
