"""What is written down beside a disk, and the claim on one that is being made."""

import base64
import json
from datetime import UTC, datetime, timedelta
from hashlib import sha256

from hypothesis import given
from hypothesis import strategies as st

from vsphere_functions.vsphere.claims_file import STALE, Claim
from vsphere_functions.vsphere.metadata import Metadata, info_digest

NOW = datetime(2026, 1, 1, tzinfo=UTC)
INFOS = st.dictionaries(st.text(min_size=1), st.binary().map(lambda raw: base64.b64encode(raw).decode()))
TOLD = st.builds(Metadata, st.integers(1024, 62 * 1024**3), INFOS, st.just(NOW.isoformat()), st.text())
CLAIMS = st.builds(Claim, st.text(), st.integers(), st.text(), st.just(NOW.isoformat()), st.booleans())


def readable(body: bytes) -> Metadata | None:
    try:
        return Metadata.parse(body)
    except ValueError:
        return None


@given(TOLD)
def test_metadata_comes_back_as_it_was_written(told: Metadata) -> None:
    assert Metadata.parse(told.render()) == told


@given(TOLD, st.data())
def test_a_damaged_byte_never_gives_other_metadata(told: Metadata, data: st.DataObject) -> None:
    body = bytearray(told.render())
    at = data.draw(st.integers(0, len(body) - 1))
    body[at] = data.draw(st.integers(0, 255))
    assert readable(bytes(body)) in (None, told)


@given(TOLD, st.data())
def test_metadata_that_is_cut_short_is_none(told: Metadata, data: st.DataObject) -> None:
    body = told.render()
    assert readable(body[: data.draw(st.integers(0, len(body) - 1))]) is None


@given(st.binary() | st.just(b"[" * 100_000) | st.just(b'{"v":1,"checksum":1}'))
def test_whatever_else_stands_there_is_neither_metadata_nor_a_claim(body: bytes) -> None:
    assert readable(body) is None
    assert Claim.parse(body) is None


@given(INFOS)
def test_the_digest_of_an_info_knows_no_order(info: dict[str, str]) -> None:
    assert info_digest(info) == info_digest(dict(reversed(info.items())))


def test_metadata_that_names_no_maker_is_read() -> None:
    told = json.loads(Metadata(1024, uuid="uuid").render())
    del told["operation"], told["checksum"]
    told["checksum"] = sha256(json.dumps(told, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
    assert Metadata.parse(json.dumps(told).encode()) == Metadata(1024, uuid="uuid")


def test_growing_changes_the_size_alone() -> None:
    told = Metadata(1024, {"a": "QQ=="}, "then", "uuid", "thick")
    assert told.grown(2048) == Metadata(2048, {"a": "QQ=="}, "then", "uuid", "thick")


@given(CLAIMS)
def test_a_claim_comes_back_as_it_was_written(claim: Claim) -> None:
    assert Claim.parse(claim.render()) == claim


def test_a_claim_holds_against_others_while_it_is_young() -> None:
    claim = Claim("mine", 1024, "x", NOW.isoformat())
    assert claim.holds_against("theirs", NOW)
    assert not claim.holds_against("mine", NOW)
    assert not claim.holds_against("theirs", NOW + STALE)
    assert claim.holds_against("theirs", NOW - STALE / 2)
    assert not claim.holds_against("theirs", NOW - STALE), "its clock was wrong"
    for odd in ("", "yesterday", "2026-01-01T00:00:00"):
        undated = Claim("mine", 1024, "x", odd)
        assert not undated.holds_against("theirs", NOW)
        assert undated.age(NOW) > timedelta(days=10_000)
