"""CloudEvents, their parts and broken ones, for property tests."""

import json
from typing import Any

from hypothesis import strategies as st

from vsphere_events.cloud_event import CORE, NO_DATA, CloudEvent, fits

TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=40).filter(fits)
URI = TEXT.map(lambda text: "".join(text.split())).filter(bool)
NAMES = st.from_regex(r"[a-z0-9]{1,20}", fullmatch=True).filter(
    lambda name: name not in {*CORE, "data", "specversion"}
)
ATTRIBUTES = TEXT | st.just("") | st.integers(-(2**31), 2**31 - 1) | st.booleans()
TIMES = st.sampled_from(
    (
        "2026-11-29T12:00:00Z",
        "2026-11-29t12:00:00.123456789z",
        "1999-12-31T23:59:60-05:30",
        "0001-01-01T00:00:00Z",
    )
)
JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text("ab é", max_size=3), inner, max_size=4)
    ),
    max_leaves=12,
)
JSON_MEDIA = st.sampled_from((None, "application/json", "Application/JSON; charset=utf-8", "text/x+json"))
OTHER_MEDIA = st.sampled_from(
    (None, "text/plain", "application/octet-stream", "application/cloudevents+json")
)
PAYLOADS = (
    st.tuples(JSON_MEDIA, JSON_VALUES)
    | st.tuples(
        OTHER_MEDIA.filter(lambda media: media != "application/cloudevents+json"), st.binary(min_size=1)
    )
    | st.tuples(JSON_MEDIA | st.just("text/plain"), st.just(NO_DATA))
)


@st.composite
def events(draw: st.DrawFn) -> CloudEvent:
    """Draw any event that the codec should carry unchanged."""
    media, data = draw(PAYLOADS)
    return CloudEvent(
        id=draw(TEXT),
        source=draw(URI),
        type=draw(TEXT),
        subject=draw(st.none() | TEXT),
        time=draw(st.none() | TIMES),
        datacontenttype=media,
        dataschema=draw(st.none() | URI),
        extensions=draw(st.dictionaries(NAMES, ATTRIBUTES, max_size=4)),
        data=data,
    )


_ANY_TEXT = st.text(max_size=20) | st.sampled_from(
    ("1.0", "%C0%A0", "100%", '"a b"', '"', "\ud800", "a\nb", "application/json", "text/plain", "x/y+json")
)
_CONTENT_TYPES = st.sampled_from(
    (
        "application/cloudevents+json",
        "Application/CloudEvents-Batch+json",
        "application/cloudevents",
        "application/cloudevents+avro",
        "application/json",
        "text/plain; charset=latin-1",
    )
)
HEADERS = st.dictionaries(
    st.sampled_from(("ce-specversion", "CE-ID", "ce-id", "ce-source", "ce-type", "ce-time", "ce-data", "ce-"))
    | st.sampled_from(("ce-datacontenttype", "ce-subject", "Ce-MyExt", "ce-my-ext", "traceparent"))
    | st.text(max_size=10).map("ce-{}".format),
    _ANY_TEXT,
    max_size=8,
).flatmap(
    lambda headers: st.one_of(
        st.just(headers), _CONTENT_TYPES.map(lambda media: headers | {"Content-Type": media})
    )
)
_MEMBERS: dict[str, st.SearchStrategy[Any]] = {
    "specversion": st.sampled_from(("1.0", "0.3", None, 1)),
    "id": _ANY_TEXT | JSON_VALUES,
    "source": _ANY_TEXT | JSON_VALUES,
    "type": _ANY_TEXT | JSON_VALUES,
}
_LOOSE = st.fixed_dictionaries(
    _MEMBERS,
    optional={
        "time": _ANY_TEXT | JSON_VALUES,
        "subject": _ANY_TEXT | JSON_VALUES,
        "datacontenttype": _ANY_TEXT | JSON_VALUES,
        "data": JSON_VALUES,
        "data_base64": _ANY_TEXT | JSON_VALUES,
        "ext": JSON_VALUES,
        "Bad-Name": JSON_VALUES,
    },
)
BODIES = (
    st.binary(max_size=60)
    | st.sampled_from(
        (
            b"[" * 100_000,
            b'{"specversion":' * 50_000,
            b"9" * 5000,
            b'{"a":1,"a":2}',
            b"NaN",
            b"1e999",
            b'"\\ud800"',
            b"\xff\xfe[\x00",
            b"\xef\xbb\xbf{}",
        )
    )
    | _LOOSE.map(lambda members: json.dumps(members).encode())
    | st.lists(_LOOSE, max_size=2).map(lambda members: json.dumps(members).encode())
)
