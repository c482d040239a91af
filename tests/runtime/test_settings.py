"""Settings from a file and the environment, and what is said when they cannot be used."""

from pathlib import Path

import pytest

from vsphere_functions.runtime.settings import Settings, SettingsError, host_of
from vsphere_functions.runtime.settings_load import load
from vsphere_functions.runtime.settings_table import settings_table

EXAMPLE = """
[nats]
url = "nats://127.0.0.1:4222"

[vcenters.default]
url = "https://vc.example/sdk"
secret = "vc-main"

[secrets.vc-main]
directory = "secrets/vc-main"

[stores.default]
vcenter = "default"
datacenter = "DC0"
path = "[we ird (1)] vols"
installation = "0b7d2a0e-7f1a-4c55-9c83-8f6e1a2b3c4d"

[limits]
creates_per_vcenter = 16
creates_per_template = 5
creates_per_datastore = 8
attempts = 5
budget_seconds = 540
inline_hosts = []
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "settings.toml"
    path.write_text(EXAMPLE)
    return path


def refused(path: Path | None, **environ: str) -> str:
    with pytest.raises(SettingsError) as error:
        load(path, environ)
    return str(error.value)


def test_the_documented_example_is_taken(file: Path) -> None:
    found = load(environ={"VSPHERE_FUNCTIONS_CONFIG": str(file)})
    assert found.nats is not None
    assert (found.nats.ack_wait_seconds, found.nats.heartbeat, found.nats.lease) == (30, 10, 30)
    assert found.secrets["vc-main"].directory == file.parent / "secrets/vc-main", "beside the file"
    assert found.own_vcenters == ("default",)
    assert found.vcenters["default"].host == "vc.example:443"


def test_the_environment_lies_over_the_file_and_knows_neither_case_nor_dashes(file: Path) -> None:
    found = load(
        file,
        {
            "VSPHERE_FUNCTIONS_NATS__URL": "nats://a:1, nats://b:2",
            "VSPHERE_FUNCTIONS_SECRETS__VC_MAIN__PASSWORD": "hunter2",
            "VSPHERE_FUNCTIONS_LIMITS__INLINE_HOSTS": "vc.example,vc2.example",
            "VSPHERE_FUNCTIONS_VCENTERS__OTHER__URL": "https://other/sdk",
            "VSPHERE_FUNCTIONS_VCENTERS__OTHER__USER": "u",
            "VSPHERE_FUNCTIONS_VCENTERS__OTHER__PASSWORD": "hunter2",
            "VSPHERE_FUNCTIONS_VCENTERS__OTHER__INSECURE": "true",
            "UNRELATED__URL": "x",
        },
    )
    assert found.nats is not None
    assert found.nats.url == ("nats://a:1", "nats://b:2")
    assert found.limits.inline_hosts == ("vc.example", "vc2.example")
    assert set(found.vcenters) == {"default", "other"}
    assert found.vcenters["other"].insecure
    password = found.secrets["vc-main"].password
    assert password is not None
    assert password.get_secret_value() == "hunter2"
    assert "hunter2" not in repr(found)


def test_nothing_given_is_settings_too() -> None:
    assert load(None, {}) == Settings()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[nats]\nurls = "x"\n', "nats.urls: unknown key; did you mean nats.url?"),
        (
            '[vcenters.a]\nurl = "https://vc/sdk"\nsecret = "b"\nca_fil = "x"\n[secrets.b]\ndirectory = "."\n',
            "vcenters.a.ca_fil: unknown key; did you mean vcenters.a.ca_file?",
        ),
        ("[limit]\nattempts = 2\n", "limit: unknown key; did you mean limits?"),
        ("[nats]\nelephant = 2\n", "nats.elephant: unknown key"),
    ],
)
def test_the_key_that_an_unknown_one_may_mean_is_named(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text(text)
    assert refused(path) == said


def test_each_wrong_key_is_named_and_no_value_is(tmp_path: Path) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text(
        '[nats]\nreplicas = 2\nurls = "x"\n[vcenters.Big]\nurl = "https://u:hunter2@vc/sdk"\nsecret = 7\n'
        '[vcenters.a]\nurl = "https://vc/sdk"\npassword = "hunter2"\n[limits]\nattempts = 0\n'
    )
    said = refused(path)
    for key in (
        "nats.replicas: ",
        "nats.urls: unknown key",
        "vcenters.Big: ",
        "vcenters.Big.url: ",
        "limits.attempts: ",
    ):
        assert key in said, said
    assert "vcenters.a: give either secret, or user and one of password and password_file" in said
    assert "hunter2" not in said


def test_names_that_lead_nowhere_are_found() -> None:
    said = refused(
        None,
        VSPHERE_FUNCTIONS_VCENTERS__A__URL="https://vc/sdk",
        VSPHERE_FUNCTIONS_VCENTERS__A__SECRET="none",
        VSPHERE_FUNCTIONS_WORKER__VCENTERS="b",
        VSPHERE_FUNCTIONS_SECRETS__S__VCENTERS="c",
    )
    assert "vcenters.a.secret names no section of secrets" in said
    assert "worker.vcenters names no section of vcenters" in said
    assert "secrets.s.vcenters names no section of vcenters" in said


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    assert "No such file" in refused(tmp_path / "none.toml")
    bad = tmp_path / "bad.toml"
    bad.write_text('password = "hunter2')
    said = refused(bad)
    assert "not TOML (at " in said
    assert "hunter2" not in said
    bad.write_bytes(b"\xff")
    assert "not TOML" in refused(bad)


def test_a_variable_through_a_value_is_refused() -> None:
    said = refused(None, VSPHERE_FUNCTIONS_NATS__URL="x", VSPHERE_FUNCTIONS_NATS__URL__DEEPER="x")
    assert "VSPHERE_FUNCTIONS_NATS__URL__DEEPER" in said


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("https://VC.example/sdk", "vc.example:443"),
        ("vc.example", "vc.example:443"),
        ("http://vc:8989/sdk", "vc:8989"),
        ("http://vc/sdk", "vc:80"),
        ("[2001:DB8::1]", "[2001:db8::1]:443"),
    ],
)
def test_a_vcenter_is_known_by_host_and_port(text: str, host: str) -> None:
    assert host_of(text) == host


def test_every_key_is_in_the_table_with_its_variable_and_meaning() -> None:
    rows = settings_table().splitlines()
    assert (
        "| `nats.url` | `VSPHERE_FUNCTIONS_NATS__URL` | `nats://127.0.0.1:4222` | server addresses"
        in "\n".join(rows)
    )
    assert any(
        row.startswith("| `vcenters.<name>.url` | `VSPHERE_FUNCTIONS_VCENTERS__<NAME>__URL` | required")
        for row in rows
    )
    assert any("| `false` |" in row for row in rows)
    assert not any("None" in row for row in rows)
