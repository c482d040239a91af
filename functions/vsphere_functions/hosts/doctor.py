"""Everything that a worker depends on, looked at once: settings, NATS, vCenters and stores. Nothing is changed."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from vsphere_events.error import CallError
from vsphere_functions.hosts.doctor_nats import run_nats
from vsphere_functions.hosts.doctor_vcenter import examine_vcenter
from vsphere_functions.hosts.findings import Finding, fault, fine
from vsphere_functions.runtime.connections import own_credentials
from vsphere_functions.runtime.settings import Settings
from vsphere_functions.runtime.settings_files import unreadable


def examine(settings: Settings) -> list[Finding]:
    """Look at all parts at once; the findings in their order."""
    with ThreadPoolExecutor(thread_name_prefix="doctor") as pool:
        nats = pool.submit(run_nats, settings)
        vcenters = [pool.submit(_vcenter, settings, label) for label in settings.own_vcenters]
        return [*_settings(settings), *nats.result(), *(one for each in vcenters for one in each.result())]


def _settings(settings: Settings) -> Iterator[Finding]:
    found = list(unreadable(settings))
    for problem in found:
        yield fault("settings", problem, "put the file there, readable for this user, or mend the path")
    if not settings.vcenters:
        yield fault("settings", "no vCenter is configured", "add a section [vcenters.default]")
    elif not found:
        yield fine("settings", f"vCenters {', '.join(settings.own_vcenters)}")


def _vcenter(settings: Settings, label: str) -> list[Finding]:
    try:
        credentials = own_credentials(settings, label)
    except CallError as error:
        return [fault(f"vcenter {label}", error.message, f"look at vcenters.{label} and its secret")]
    return list(examine_vcenter(settings, label, credentials))
