"""Environment variables that begin like ours and mean no key."""

import pytest

from vsphere_functions.runtime.settings import PREFIX, Settings, SettingsError
from vsphere_functions.runtime.settings_load import load


def refused(*names: str) -> str:
    with pytest.raises(SettingsError) as error:
        load(None, {PREFIX + name: "do-not-show" for name in names})
    assert "do-not-show" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("NATS_URL", "NATS__URL"),
        ("NATS__URLS", "NATS__URL"),
        ("HTTP_PORT", "HTTP__PORT"),
        ("WORKER_HEALTH_PORT", "WORKER__HEALTH_PORT"),
        ("VCENTERS_DEFAULT_URL", "VCENTERS__DEFAULT__URL"),
        ("SECRETS_VC_MAIN_DIRECTORY", "SECRETS__VC_MAIN__DIRECTORY"),
        ("LIMITS__ATEMPTS", "LIMITS__ATTEMPTS"),
        ("CONFIG_FILE", "CONFIG"),
    ],
)
def test_the_right_spelling_is_named(wrong: str, meant: str) -> None:
    assert refused(wrong) == f"{PREFIX}{wrong}: there is no such setting; did you mean {PREFIX}{meant}?"


def test_what_resembles_nothing_is_refused_too_and_each_has_a_line() -> None:
    said = refused("ELEPHANT", "NATS_URL").splitlines()
    assert said[0] == f"{PREFIX}ELEPHANT: there is no such setting"
    assert len(said) == 2


def test_what_kubernetes_says_of_a_service_of_our_name_is_no_setting() -> None:
    given = {
        "SERVICE_HOST": "10.0.0.1",
        "SERVICE_PORT": "80",
        "SERVICE_PORT_HTTP": "80",
        "PORT": "tcp://10.0.0.1:80",
        "PORT_80_TCP": "tcp://10.0.0.1:80",
        "PORT_80_TCP_ADDR": "10.0.0.1",
        "ROUTER_SERVICE_HOST": "10.0.0.2",
        "HTTP_PORT": "tcp://10.0.0.2:80",
    }
    assert load(None, {PREFIX + name: value for name, value in given.items()}) == Settings()
