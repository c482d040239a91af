"""What people may see of a request."""

import json

import pytest

from vsphere_functions.runtime.masked import HIDDEN, hidden, masked


def test_secrets_are_hidden_at_any_depth_and_their_names_are_seen() -> None:
    given = {
        "machineName": "m",
        "secretRef": "blue",
        "secrets": {"vspherePassword": "p", "userData": "u", "more": {"deep": ["p", 7]}, "none": None},
        "providerSpec": {
            "numCpus": 2,
            "vapp": {"properties": {"admin_password": "p", "hostname": "h"}},
            "list": [{"apiKey": "p"}, "plain"],
        },
    }
    assert masked(given) == {
        "machineName": "m",
        "secretRef": "blue",
        "secrets": {
            "vspherePassword": HIDDEN,
            "userData": HIDDEN,
            "more": {"deep": [HIDDEN, HIDDEN]},
            "none": None,
        },
        "providerSpec": {
            "numCpus": 2,
            "vapp": {"properties": {"admin_password": HIDDEN, "hostname": "h"}},
            "list": [{"apiKey": HIDDEN}, "plain"],
        },
    }


NAMES = (
    "password rootPasswordHash passwd user-data user_data USERDATA secretKey secret bootstrapToken Authorization "
    "Cookie private_key kubeconfig credentials api-key"
)


@pytest.mark.parametrize("name", NAMES.split())
def test_these_names_are_hidden(name: str) -> None:
    assert hidden(name)


@pytest.mark.parametrize("name", ["secretRef", "pageToken", "nextPageToken", "machineName", "id", "sshKeys"])
def test_these_are_not(name: str) -> None:
    assert not hidden(name)


@pytest.mark.parametrize(
    "text", ["#cloud-config\nusers: []", "#!/bin/sh\n", '{"ignition": {"version": "3"}}']
)
def test_user_data_is_known_wherever_it_stands(text: str) -> None:
    shown = masked({"note": text})["note"]
    assert shown in {HIDDEN, json.dumps(HIDDEN)}


def test_json_inside_a_text_is_looked_through() -> None:
    assert masked('[{"password": "p", "a": 1}]') == json.dumps([{"password": HIDDEN, "a": 1}])
    for text in ('[{"a":1}]', "{no json", "[1"):
        assert masked(text) == text
