"""The base of every model on the wire, and what a validation error says to a caller."""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Annotated, Any, ClassVar, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    ValidationError,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import InitErrorDetails, PydanticCustomError

from vsphere_events.code import Code
from vsphere_events.error import CallError, Detail

_UNFIT = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff\ufffe\uffff]")

MOST = 1000
"""Violations that are told one by one."""

_SPELLINGS = {
    "capacity_kb": "capacityKB",
    "provider_id": "providerID",
    "pv_spec_list": "pvSpecList",
    "template_vm": "templateVM",
    "volume_ids": "volumeIDs",
    "vsphere_insecure_ssl": "vsphereInsecureSSL",
    "wait_for_ip": "waitForIP",
    "wait_for_ip_seconds": "waitForIPSeconds",
}
_UNKNOWN = "extra_forbidden"
_WORDS = {
    "missing": "is required",
    "model_type": "should be an object",
    "dict_type": "should be an object",
    "tuple_type": "should be a list",
}


_SHOWN = re.compile(r"[\w ./:@+-]{1,64}", re.ASCII)
_HIDDEN = "(key)"
"""In place of a map's key that is too long to be shown, or could do something to whoever looks at it."""

_NULLS = frozenset({"provider_id", "last_known_state", "next_page_token"})


@cache
def wire_name(name: str) -> str:
    """Spell a field as it stands in events: `provider_id` is `providerID`, `num_cpus` is `numCpus`."""
    return _SPELLINGS.get(name) or to_camel(name)


class Model(BaseModel):
    """Frozen data with camelCase names on the wire; unknown fields are refused, inputs are never shown."""

    model_config = ConfigDict(
        alias_generator=wire_name,
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
        populate_by_name=True,
    )
    kept_null: ClassVar[frozenset[str]] = frozenset()
    _looks_across: ClassVar[bool] = False

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        cls._looks_across = cls._looks_across or "across" in vars(cls)

    @classmethod
    def across(cls, given: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """Yield (field, reason) for what is wrong between fields; `given` holds raw values by Python name.

        A field inside another one is named by its dotted path.
        """
        del given
        yield from ()

    @model_validator(mode="wrap")
    @classmethod
    def _everything_at_once(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """Report the fields' own violations and those between fields together."""
        found: list[InitErrorDetails] = []
        made = None
        try:
            made = handler(data)
        except ValidationError as error:
            found += _found(error, cls, data)
        if cls._looks_across and isinstance(data, Mapping):
            given = {name: data.get(wire_name(name), data.get(name)) for name in cls.model_fields}
            found += [_violation(_spelled(name), reason) for name, reason in cls.across(given)]
        if made is None or found:
            raise ValidationError.from_exception_data(cls.__name__, found, hide_input=True)
        return made

    @classmethod
    def parse(cls, data: object) -> Self:
        """Validate JSON data in the wire's spelling; InvalidArgument with every violation at once."""
        try:
            return cls.model_validate(data, by_alias=True, by_name=False)
        except ValidationError as error:
            raise refusal(error) from None

    def wire(self) -> dict[str, Any]:
        """Render as JSON data: what is absent is left out, or null for `kept_null`; secrets are masked."""
        data = self.model_dump(mode="json", by_alias=True, exclude_none=True)
        return data | {name: None for name in map(wire_name, sorted(self.kept_null)) if name not in data}


class Result(Model):
    """What a function answers; `providerID`, `lastKnownState`, `nextPageToken` are null, never absent."""

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        cls.kept_null = _NULLS & cls.model_fields.keys()


def violations(error: ValidationError) -> tuple[Detail, ...]:
    """List every violation with its dotted path in the wire's spelling, never with the input."""
    return tuple(
        Detail(reason=_reason(one["type"], one["msg"]), field=_path(one["loc"]))
        for one in error.errors(include_url=False, include_context=False, include_input=False)
    )


def refusal(error: ValidationError) -> CallError:
    """Turn a validation error into InvalidArgument."""
    return problems(violations(error))


def problems(details: tuple[Detail, ...]) -> CallError:
    """Make the InvalidArgument that lists all violations of a request."""
    count = "1 problem" if len(details) == 1 else f"{len(details)} problems"
    return CallError(Code.INVALID_ARGUMENT, f"{count} with the request; nothing was changed", details=details)


def _path(loc: tuple[int | str, ...]) -> str | None:
    # pydantic marks a refused key of an object; the key itself stands before the mark.
    shown = (str(part) if _SHOWN.fullmatch(str(part)) else _HIDDEN for part in loc if part != "[key]")
    return ".".join(shown)[:200] or None


def _spelled(path: str) -> tuple[str, ...]:
    return tuple(wire_name(part) for part in path.split("."))


def _found(error: ValidationError, cls: type[Model], data: Any) -> list[InitErrorDetails]:
    """Take over what was found, or only how much it is: a megabyte of mistakes must not keep the process busy."""
    if error.error_count() > MOST:
        return [_violation((), f"has more than {MOST} problems")]
    there = {name: at for at, name in enumerate(data, 1)} if isinstance(data, Mapping) else {}
    return [_again(one, cls, there) for one in error.errors(include_url=False, include_input=False)]


def _again(one: Any, cls: type[Model], there: Mapping[Any, int]) -> InitErrorDetails:
    if one["type"] == _UNKNOWN and len(one["loc"]) == 1 and one["loc"][0] in there:
        return _violation((), _unknown(one["loc"][0], cls, there))
    return _violation(one["loc"], _reason(one["type"], one["msg"]), one["type"])


def _unknown(name: str, cls: type[Model], there: Mapping[Any, int]) -> str:
    """Say which field is unknown by its place: its name is the caller's, and may be a secret in the wrong place."""
    known = {_letters(wire_name(one)): wire_name(one) for one in cls.model_fields}
    meant = known.get(_letters(name[:64]))
    hint = f"; is {meant} meant?" if meant else ""
    return f"has an unknown field, number {there[name]} of {len(there)}{hint}"


def _letters(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _violation(loc: tuple[int | str, ...], reason: str, kind: str = "value_error") -> InitErrorDetails:
    return InitErrorDetails(
        type=PydanticCustomError(kind, "{reason}", {"reason": reason}),
        loc=loc,
        input=None,
    )


def _reason(kind: str, message: str) -> str:
    return _WORDS.get(kind) or message.removeprefix("Value error, ").replace("Input should be", "should be")


def plain(text: str) -> str:
    """Refuse spaces at the ends, control characters, and what makes a text look like another one.

    That is what no name in an inventory should have. Marks that scripts from right to left need are taken.
    """
    if text != text.strip():
        raise ValueError("starts or ends with white space")
    if not text.isprintable() and _UNFIT.search(text):
        raise ValueError("has a control character, or one that changes the direction or line of a text")
    return text


def xml_text(text: str) -> str:
    """Refuse characters that XML 1.0, and so the vSphere API, cannot carry."""
    if re.search(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", text):
        raise ValueError("has a character that XML cannot carry")
    return text


def _empty_is_absent(text: str | None) -> str | None:
    return plain(text) if text else None


Int = Annotated[int, Field(strict=True)]
Bool = Annotated[bool, Field(strict=True)]
Name = Annotated[str, Field(min_length=1, max_length=1024), AfterValidator(plain)]
OptionalName = Annotated[str | None, Field(max_length=1024), AfterValidator(_empty_is_absent)]
Text = Annotated[str, AfterValidator(xml_text)]
State = Annotated[str, Field(max_length=65536)]
