"""Which credentials go where."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_events.machine import Secrets
from vsphere_functions.runtime.connections import credentials_of, host_for, sessions_of, user_data_of
from vsphere_functions.runtime.settings import Settings
from vsphere_functions.vsphere.session import Endpoint
from vsphere_functions.vsphere.sessions import Credentials

INLINE = {"vsphereHost": "vc2.example", "vsphereUsername": "me", "vspherePassword": "mine"}

ONE = {"default": {"url": "https://vc.example/sdk", "secret": "main"}}


def settings(**more: Any) -> Settings:
    given: dict[str, Any] = {
        "vcenters": {
            "default": {"url": "https://vc.example/sdk", "secret": "main", "ca_file": "/ca.pem"},
            "team": {"url": "https://vc.example/sdk", "user": "team", "password": "t"},
        },
        "secrets": {
            "main": {"user": "admin", "password": "a", "user_data": "#cloud-config"},
            "extra": {"user": "extra", "password": "e", "host": "other.example", "insecure": True},
            "boot": {"user_data": "#boot"},
        },
    }
    return Settings.model_validate(given | more)


def secrets(**given: str) -> Secrets:
    return Secrets.parse(given)


def chosen(given: Settings, label: str, inline: Secrets | None = None, ref: str | None = None) -> Credentials:
    found = credentials_of(given, label, inline, ref)
    assert found is not None
    return found


def refusal(given: Settings, label: str, inline: Secrets | None = None, ref: str | None = None) -> CallError:
    with pytest.raises(CallError) as error:
        credentials_of(given, label, inline, ref)
    assert error.value.code is Code.INVALID_ARGUMENT
    return error.value


def test_without_secrets_the_vcenters_own_credentials_are_used() -> None:
    assert credentials_of(settings(), "default", None, None) is None
    assert user_data_of(settings(), "default", None, None) is None
    assert host_for(settings(), "default", None, None) == "vc.example:443"


def test_a_host_of_a_request_must_be_on_the_operators_list() -> None:
    inline = secrets(**INLINE, vsphereInsecureSSL="true")
    error = refusal(settings(), "default", inline)
    assert "inline_hosts" in error.message
    assert "vc2" not in error.message
    allowed = settings(limits={"inline_hosts": ["VC2.example:443"]})
    found = chosen(allowed, "default", inline)
    assert (found.endpoint.url, found.endpoint.insecure) == ("https://vc2.example:443/sdk", True)
    assert (found.user, found.password) == ("me", "mine")
    assert host_for(allowed, "default", inline, None) == "vc2.example:443"


def test_an_insecure_login_opens_nothing_for_a_careful_one() -> None:
    held = sessions_of(settings())
    login = Credentials(Endpoint("https://127.0.0.1:9/sdk"), "me", "mine")
    careless = replace(login, endpoint=replace(login.endpoint, insecure=True))
    assert held.get("default", careless) is not held.get("default", login)
    assert held.get("default", login) is held.get("default", login)


@pytest.mark.parametrize("host", ["vc:99999", "vc:port", "[", "https://"])
def test_a_host_that_is_none_is_refused_without_showing_it(host: str) -> None:
    inline = secrets(**{**INLINE, "vsphereHost": host})
    assert host not in refusal(settings(), "default", inline).message
    with pytest.raises(CallError) as error:
        host_for(settings(), "default", inline, None)
    assert error.value.code is Code.INVALID_ARGUMENT
    named = settings(secrets={"main": {"user": "u", "password": "p", "host": host}}, vcenters=ONE)
    refusal(named, "default", ref="main")


def test_user_data_alone_is_always_allowed() -> None:
    inline = secrets(userData="#mine")
    assert credentials_of(settings(), "default", inline, None) is None
    assert user_data_of(settings(), "default", inline, "boot") == "#mine"


def test_a_named_set_is_used_where_it_may_be() -> None:
    found = chosen(settings(), "team", ref="extra")
    assert (found.endpoint.url, found.endpoint.insecure, found.user) == (
        "https://other.example:443/sdk",
        True,
        "extra",
    )
    assert host_for(settings(), "team", None, "extra") == "other.example:443"
    own = chosen(settings(), "default", ref="main")
    assert (own.endpoint.url, own.endpoint.ca_file) == ("https://vc.example/sdk", Path("/ca.pem"))
    assert user_data_of(settings(), "default", None, "main") == "#cloud-config"


def test_a_set_that_a_vcenter_logs_in_with_is_only_that_vcenters() -> None:
    """Else a team could act with the rights of another through a name."""
    refusal(settings(), "team", ref="main")
    refusal(settings(), "team", ref="none")
    shared = settings()
    main = shared.secrets["main"].model_copy(update={"vcenters": ("default", "team")})
    shared = shared.model_copy(update={"secrets": {**shared.secrets, "main": main}})
    assert chosen(shared, "team", ref="main").user == "admin"


def test_a_set_without_a_login_only_brings_user_data() -> None:
    assert credentials_of(settings(), "team", None, "boot") is None
    assert user_data_of(settings(), "team", None, "boot") == "#boot"


def test_an_unknown_vcenter_is_refused() -> None:
    refusal(settings(), "none")


def test_a_mounted_secret_is_read_afresh_each_time(tmp_path: Path) -> None:
    (tmp_path / "username").write_text("admin\n")
    (tmp_path / "vspherePassword").write_text("first\n")
    (tmp_path / "userData").write_text("#!/bin/sh\n")
    given = settings(
        secrets={"main": {"directory": str(tmp_path)}},
    )
    assert chosen(given, "default", ref="main").password == "first"
    assert user_data_of(given, "default", None, "main") == "#!/bin/sh\n", "as it is"
    (tmp_path / "vspherePassword").write_text("second")
    (tmp_path / "vsphereUsername").write_text("seed")
    (tmp_path / "vsphereInsecureSSL").write_text("1")
    (tmp_path / "vsphereHost").write_text("elsewhere")
    found = chosen(given, "default", ref="main")
    assert (found.user, found.password) == ("seed", "second")
    assert (found.endpoint.url, found.endpoint.insecure) == ("https://elsewhere:443/sdk", True)


@pytest.mark.parametrize("name", ["userData", "password"])
def test_a_mounted_file_that_is_no_text_is_refused_without_showing_it(tmp_path: Path, name: str) -> None:
    (tmp_path / "username").write_text("admin")
    (tmp_path / "password").write_text("p")
    (tmp_path / name).write_bytes(b"\xffhush")
    given = settings(secrets={"main": {"directory": str(tmp_path)}})
    with pytest.raises(CallError) as error:
        user_data_of(given, "default", None, "main")
    assert (error.value.code, "hush" in error.value.message) == (Code.UNAUTHENTICATED, False)


def configured(given: Settings, label: str) -> Credentials:
    return sessions_of(given)._configured[label]()


def test_a_login_of_the_settings_comes_from_values_a_file_or_a_secret(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("p\n")
    given = settings(
        vcenters={
            "default": {"url": "https://vc/sdk", "secret": "main"},
            "file": {"url": "https://vc/sdk", "user": "u", "password_file": str(file)},
            "value": {"url": "https://vc/sdk", "user": "u", "password": "v", "thumbprint": "AB"},
            "empty": {"url": "https://vc/sdk", "secret": "boot"},
        }
    )
    assert configured(given, "default").password == "a"
    assert configured(given, "file").password == "p"
    assert configured(given, "value").password == "v"
    assert configured(given, "value").endpoint.thumbprint == "AB"
    file.unlink()
    for label in ("empty", "file"):
        with pytest.raises(CallError) as error:
            configured(given, label)
        assert error.value.code is Code.UNAUTHENTICATED
