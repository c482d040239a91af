"""A machine's identity to Kubernetes: `vsphere://<region>/<uuid>`, or `vsphere://<uuid>`."""

import re
from dataclasses import dataclass
from typing import Annotated, Self

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

from vsphere_events.code import Code
from vsphere_events.error import CallError

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
LONGEST_REGION = 255
_REGION = re.compile(rf"[^\s/\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ufeff]{{1,{LONGEST_REGION}}}")
_FORM = re.compile(r"vsphere://(?:([^/]*)/)?([^/]*)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ProviderID:
    """A BIOS uuid, lower case, and the region when the spec has one; InvalidArgument when malformed."""

    uuid: str
    region: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "uuid", self.uuid.lower())
        object.__setattr__(self, "region", self.region or None)
        if not _UUID.fullmatch(self.uuid):
            raise CallError(Code.INVALID_ARGUMENT, "a providerID ends with the uuid of a machine")
        if self.region and not _REGION.fullmatch(self.region):
            raise CallError(Code.INVALID_ARGUMENT, "the region of a providerID has no slash and no space")

    def __str__(self) -> str:
        """Render the form that goes into events; the uuid is the last path segment, in lower case."""
        return f"vsphere://{self.region}/{self.uuid}" if self.region else f"vsphere://{self.uuid}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read either form, in any case; InvalidArgument when it is neither."""
        form = _FORM.fullmatch(text)
        if not form or form[1] == "":
            raise CallError(
                Code.INVALID_ARGUMENT, "a providerID is vsphere://<region>/<uuid> or vsphere://<uuid>"
            )
        return cls(form[2], form[1])


def _read(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return ProviderID.parse(value)
    except CallError as error:
        raise ValueError(error.message) from None


ProviderIDField = Annotated[
    ProviderID,
    BeforeValidator(_read),
    PlainSerializer(str),
    WithJsonSchema(
        {"type": "string", "pattern": "^[vV][sS][pP][hH][eE][rR][eE]://([^/]+/)?[0-9a-fA-F-]{36}$"}
    ),
]
