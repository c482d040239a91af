"""systemd: setup, a worker and the router on a host with neither containers nor a cluster."""

from collections.abc import Iterator, Sequence

from vsphere_functions.cli.infra import facts
from vsphere_functions.cli.infra.text import STORES, Sections, toml, unit

CREDENTIALS = "/etc/vsphere-functions/credentials"
_SETUP = f"{facts.NAME}-setup.service"

_ABOUT = """
Credentials are read by systemd as root and seen by this service alone; after a change of theirs restart it.
"""


def files(site: facts.Site) -> dict[str, str]:
    """Give a unit for each command, and the settings that they read."""
    units = {
        _SETUP: ("Make the streams and consumers of vsphere-functions", "setup"),
        f"{facts.NAME}-worker.service": ("Worker of vsphere-functions", "worker"),
        f"{facts.NAME}-router.service": ("vsphere-functions over HTTP", "serve"),
    }
    made = {f"systemd/{name}": _unit(*about, site.vcenters) for name, about in units.items()}
    return {**made, "systemd/settings.toml": _settings(site.vcenters)}


def _settings(labels: Sequence[str]) -> str:
    about = f"""
Settings of all units, as {facts.CONFIG_FILE}, with the certificate authority of NATS beside it.
The units say where the secrets are: in {CREDENTIALS} lie <vCenter>.password, and the keys
of NATS' users as infra/nats has them: worker.nk and setup.nk.
{STORES}
"""
    logins = {f"vcenters.{label}": {"url": facts.url_of(label), "user": facts.USER} for label in labels}
    return toml(
        about, {"nats": {"url": f"tls://nats.example:{facts.NATS_PORT}", "ca_file": "ca.crt"}, **logins}
    )


def _unit(description: str, command: str, labels: Sequence[str]) -> str:
    once = command == "setup"
    ordered = [] if once else [("Wants", _SETUP), ("After", _SETUP)]
    lasting = (
        [("Type", "oneshot"), ("RemainAfterExit", "yes")]
        if once
        else [("Type", "exec"), ("Restart", "on-failure"), ("RestartSec", "5s")]
    )
    sections: Sections = [
        (
            "Unit",
            [
                ("Description", description),
                ("Wants", "network-online.target"),
                ("After", "network-online.target"),
                *ordered,
            ],
        ),
        (
            "Service",
            [
                *lasting,
                ("ExecStart", f"{facts.HOME}/bin/{facts.NAME} {command}"),
                ("TimeoutStopSec", f"{facts.LEAVE_SECONDS}s"),
                *_given("setup" if once else "worker", labels),
                *_HARDENED,
            ],
        ),
        ("Install", [("WantedBy", "multi-user.target")]),
    ]
    return unit(_ABOUT, sections)


def _given(user: str, labels: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Hand over settings and credentials; `%d` is the folder that holds them."""
    yield "Environment", f"{facts.CONFIG_VARIABLE}={facts.CONFIG_FILE}"
    yield "Environment", f"{facts.environment('nats.inbox_prefix')}={facts.inbox_of(user)}"
    files = {facts.environment("nats.nkey_seed_file"): f"{user}.nk"}
    for label in labels:
        files[facts.environment("vcenters.<name>.password_file", label)] = f"{label}.password"
    for variable, file in files.items():
        yield "LoadCredential", f"{file}:{CREDENTIALS}/{file}"
        yield "Environment", f"{variable}=%d/{file}"


_HARDENED = (
    ("DynamicUser", "yes"),
    ("UMask", "0077"),
    ("CapabilityBoundingSet", ""),
    ("NoNewPrivileges", "yes"),
    ("ProtectSystem", "strict"),
    ("ProtectHome", "yes"),
    ("ProtectProc", "invisible"),
    ("ProcSubset", "pid"),
    ("ProtectClock", "yes"),
    ("ProtectHostname", "yes"),
    ("ProtectKernelLogs", "yes"),
    ("ProtectKernelModules", "yes"),
    ("ProtectKernelTunables", "yes"),
    ("ProtectControlGroups", "yes"),
    ("PrivateDevices", "yes"),
    ("PrivateTmp", "yes"),
    ("PrivateUsers", "yes"),
    ("LockPersonality", "yes"),
    ("MemoryDenyWriteExecute", "yes"),
    ("RemoveIPC", "yes"),
    ("RestrictAddressFamilies", "AF_INET AF_INET6"),
    ("RestrictNamespaces", "yes"),
    ("RestrictRealtime", "yes"),
    ("RestrictSUIDSGID", "yes"),
    ("SystemCallArchitectures", "native"),
    ("SystemCallFilter", "@system-service"),
    ("SystemCallFilter", "~@privileged @resources"),
)
