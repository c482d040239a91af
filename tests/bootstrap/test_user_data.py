"""User data of one machine, read back by an independent YAML parser."""

from email import message_from_string
from email.message import Message
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from vsphere_functions.bootstrap.encode import flow
from vsphere_functions.bootstrap.user_data import beside, keys_refused, personal, with_keys

KEYS = ("ssh-ed25519 AAAA me", 'from="10.0.0.1",command="echo \'x\'" ssh-rsa BBBB #1: {odd}')
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\r"))
VALUES = st.recursive(st.none() | st.booleans() | st.integers() | TEXT, lambda x: st.lists(x, max_size=4))


def _archive(user_data: str | None) -> list[str]:
    """The parts of an archive; cloud-init tells their types by their first words."""
    first, _, rest = (user_data or "").partition("\n")
    assert first == "#cloud-config-archive"
    parts: list[str] = yaml.safe_load(rest)
    return parts


@given(VALUES)
def test_what_is_written_in_flow_style_is_json_and_yaml_alike(value: Any) -> None:
    assert yaml.safe_load(flow(value)) == value


@given(st.text(st.sampled_from("\"'\\:#{}[],&*!|>%@`\x00\x07\x1b\x7f\x85\u2028\u2029\ufeff\uffff\n\t é😀")))
def test_odd_characters_come_through_yaml(text: str) -> None:
    assert yaml.safe_load(flow([text])) == [text]


def test_without_keys_user_data_stays_as_it_is() -> None:
    for data in (None, "", "#!/bin/sh\necho\n", "anything"):
        assert with_keys(data, ()) == data
        assert keys_refused(data, ()) is None


def test_keys_alone_are_a_document() -> None:
    told = with_keys(None, KEYS) or ""
    assert told.startswith("#cloud-config\n")
    assert yaml.safe_load(told) == {"ssh_authorized_keys": list(KEYS)}


@pytest.mark.parametrize(
    "document",
    [
        "#cloud-config\nruncmd:\n- ls\n",
        "#cloud-config\nruncmd:\n- ls",
        "#cloud-config\n\n# a comment\nwrite_files:\n- content: |\n    a: b\n\n",
        "#cloud-config\n---\nhostname: x\n",
        "#cloud-config\n",
        "#cloud-config",
        "#cloud-config\nruncmd: [\n'ls']\n# end",
    ],
)
def test_keys_are_appended_once_to_a_cloud_config_document(document: str) -> None:
    assert keys_refused(document, KEYS) is None
    told = with_keys(document, KEYS) or ""
    assert told.startswith(document)
    assert told.count("ssh_authorized_keys") == 1
    before = yaml.safe_load(document) or {}
    assert yaml.safe_load(told) == before | {"ssh_authorized_keys": list(KEYS)}


@given(st.lists(st.tuples(st.from_regex(r"[a-z_]{1,8}", fullmatch=True), VALUES), unique_by=lambda x: x[0]))
def test_any_block_document_with_keys_is_valid_yaml(fields: list[tuple[str, Any]]) -> None:
    document = "#cloud-config\n" + yaml.safe_dump(dict(fields), allow_unicode=True, default_flow_style=False)
    told = with_keys(document, KEYS) or ""
    if told.startswith("#cloud-config-archive"):
        assert _archive(told)[1] == document
    else:
        before = yaml.safe_load(document) or {}
        assert yaml.safe_load(told) == before | {"ssh_authorized_keys": list(KEYS)}


@pytest.mark.parametrize(
    "data",
    [
        "#!/bin/sh\necho 'a: b'\n",
        "#cloud-boothook\n#!/bin/sh\necho\n",
        "## template: jinja\n#cloud-config\nhostname: {{ x }}\n",
        "#cloud-config\n{hostname: x}\n",
        "#cloud-config\n  hostname: x\n",
        "#cloud-config\nhostname: x\n...\n",
        "#cloud-config\nhostname: x\n---\nhostname: y\n",
        '#cloud-config\n"hostname": x\n',
    ],
)
def test_keys_stand_beside_what_takes_no_line(data: str) -> None:
    assert keys_refused(data, KEYS) is None
    parts = _archive(with_keys(data, KEYS))
    assert parts[1] == data
    assert parts[0].startswith("#cloud-config\n")
    assert yaml.safe_load(parts[0]) == {"ssh_authorized_keys": list(KEYS)}


@given(TEXT)
def test_a_script_comes_through_an_archive_as_it_was(script: str) -> None:
    assert _archive(with_keys("#!" + script, KEYS))[1] == "#!" + script


@pytest.mark.parametrize(
    "data",
    [
        "#cloud-config\nssh_authorized_keys:\n- ssh-rsa C\n",
        '#cloud-config\n{"ssh_authorized_keys": []}\n',
        "#cloud-config\nusers:\n- name: a\n  ssh_authorized_keys: [b]\n",
    ],
)
def test_keys_in_two_places_are_refused(data: str) -> None:
    assert "already" in (keys_refused(data, KEYS) or "")


@pytest.mark.parametrize(
    "data",
    [
        "hostname: x\n",
        "Content-Type: multipart/mixed\n",
        "#include\nhttp://x\n",
        "#cloud-config-archive\n[]\n",
    ],
)
def test_user_data_that_keys_cannot_be_added_to_is_refused_with_the_reason(data: str) -> None:
    assert "cannot be added" in (keys_refused(data, KEYS) or "")


def test_the_machine_s_name_is_filled_in_plain_and_url_encoded() -> None:
    data = "a <<MACHINE_NAME>> b %3C%3CMACHINE_NAME%3E%3E c %3c%3cMACHINE_NAME%3e%3e <<BOOTSTRAP_TOKEN>>"
    told = personal(data, "w ö/1\\1")
    assert told == "a w ö/1\\1 b w+%C3%B6%2F1%5C1 c w+%C3%B6%2F1%5C1 <<BOOTSTRAP_TOKEN>>"
    assert personal("<<machine_name>>", "w") == "<<machine_name>>"


def _parts(archive: str) -> list[Message]:
    """The parts of a MIME archive, those of an archive within it too, as cloud-init walks them."""
    return [
        part for part in message_from_string(archive).walk() if part.get_content_maintype() != "multipart"
    ]


@given(st.text(st.sampled_from("ab\n\r-é \t:")))
def test_any_user_data_comes_through_an_archive_unchanged_and_its_kind_is_left_open(text: str) -> None:
    data = "#!" + text
    hook, theirs = _parts(beside("#cloud-boothook\n#!/bin/sh\n", data))
    assert hook.get_content_type() == "text/cloud-boothook"
    assert hook.get_payload() == "#cloud-boothook\n#!/bin/sh\n"
    assert theirs.get_content_type() == "text/plain", "which cloud-init takes to be told by its first words"
    assert _bytes(theirs) == data.encode()


def test_an_archive_keeps_its_parts_beside_the_boothook() -> None:
    inner = beside("#cloud-boothook\none", "#cloud-config\na: é\n")
    parts = _parts(beside("#cloud-boothook\ntwo", inner))
    assert [_bytes(part).decode() for part in parts] == [
        "#cloud-boothook\ntwo",
        "#cloud-boothook\none",
        "#cloud-config\na: é\n",
    ]
    assert len(_parts(beside("#cloud-boothook\n", None))) == 1


def _bytes(part: Message) -> bytes:
    payload = part.get_payload(decode=True)
    assert isinstance(payload, bytes)
    return payload
