"""The fast reader: what is asked for, what comes out, and what is never read as absence."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape, quoteattr

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree
from pyVmomi import vim

from support.gateway import end_other_sessions, error_of, machine, opened, other_sessions, terminate
from support.soap import Soap
from vsphere_events.code import Code
from vsphere_functions.local.vcenter import SimulatedVCenter
from vsphere_functions.vsphere import reader
from vsphere_functions.vsphere.faults import Fault, NoAnswer, fault_name
from vsphere_functions.vsphere.plain import value
from vsphere_functions.vsphere.ref import Ref
from vsphere_functions.vsphere.session import Session

NAMES = {"VirtualMachine": ["name"]}
ODD = 'key <&> "quoted" ü'
VM = Ref("VirtualMachine", "vm-1")


@pytest.fixture(scope="module")
def fleet(vcsim_binary: Path) -> Iterator[SimulatedVCenter]:
    assert vcsim_binary.is_file()
    with SimulatedVCenter(vms=1100, marks={"vspherefunctions.owner": "shoot/worker"}) as server:
        yield server


@pytest.fixture(scope="module")
def session(fleet: SimulatedVCenter) -> Iterator[Session]:
    with opened(fleet) as made:
        yield made


def test_every_machine_comes_in_pages(session: Session, fleet: SimulatedVCenter) -> None:
    """M66: 1,100 VMs and more are three pages; a scan is as many calls, and one view made and destroyed."""
    assert session.content
    fleet.control.reset_calls()
    owner = 'config.extraConfig["vspherefunctions.owner"]'
    rows = session.scan(
        {"VirtualMachine": ["name", "config.uuid", owner, 'config.extraConfig["no such key"]']}
    )
    mine = [row for row in rows.values() if row.get(owner) == "shoot/worker"]
    assert len(mine) == 1100
    assert len({row["config.uuid"] for row in mine}) == 1100
    assert all(len(row) == 3 for row in mine)
    assert fleet.control.calls() == {
        "CreateContainerView": 1,
        "RetrievePropertiesEx": 1,
        "ContinueRetrievePropertiesEx": 2,
        "DestroyView": 1,
    }


def test_the_view_is_destroyed_when_the_scan_fails(session: Session, fleet: SimulatedVCenter) -> None:
    fleet.control.reset_calls()
    error = error_of(session.scan, {"VirtualMachine": ["nonsense"]})
    assert error.code is Code.INTERNAL
    assert "nonsense" in error.message
    assert fleet.control.calls()["DestroyView"] == 1


def test_a_scan_below_a_root_sees_only_what_is_there(session: Session) -> None:
    index = session.content["searchIndex"]
    folder = session.call(index, "FindByInventoryPath", inventoryPath="/DC0/vm/templates", repeatable=True)
    assert [row["name"] for row in session.scan(NAMES, folder).values()] == ["ubuntu-24.04"]
    rows = session.scan({"Folder": ["name"], "Datacenter": ["name", "vmFolder"]})
    assert {ref.type for ref in rows} == {"Folder", "StoragePod", "Datacenter"}  # a pod is a kind of folder


def test_a_session_lost_between_the_pages_costs_no_row(session: Session, fleet: SimulatedVCenter) -> None:
    """M60: the whole scan is done again under a new session."""
    fleet.control.add_fault("ContinueRetrievePropertiesEx", "NotAuthenticated", count=1, skip=1)
    assert len(session.scan(NAMES)) > 1100


@pytest.mark.parametrize("method", ["RetrievePropertiesEx", "CreateContainerView"])
def test_a_session_lost_before_a_scan_is_renewed(
    session: Session, fleet: SimulatedVCenter, method: str
) -> None:
    """M60: also when only the view is gone, which looks like an empty inventory."""
    fleet.control.add_fault(method, "NotAuthenticated", count=1)
    assert len(session.scan(NAMES)) > 1100
    with opened(fleet) as admin:
        end_other_sessions(admin)
    assert len(session.scan(NAMES)) > 1100


@pytest.mark.parametrize("method", ["RetrievePropertiesEx", "ContinueRetrievePropertiesEx", "DestroyView"])
def test_a_session_ended_while_a_scan_runs_costs_no_row(
    session: Session, fleet: SimulatedVCenter, method: str
) -> None:
    """M60: with the session its views end, and a view that is not there shows as an empty inventory."""
    with opened(fleet) as admin, ThreadPoolExecutor(1) as threads:
        assert session.content
        keys = other_sessions(admin)
        fleet.control.reset_calls()
        fleet.control.delay(**{method: 400})
        scan = threads.submit(session.scan, NAMES)
        while not fleet.control.calls()[method]:
            pass
        terminate(admin, keys)
        fleet.control.delay(**{method: 0})
        assert len(scan.result()) > 1100
        assert fleet.control.calls()["Login"] == (method != "DestroyView")


def test_a_scan_in_whose_answer_its_view_is_missing_is_done_again(
    fleet: SimulatedVCenter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """M26: such an answer has no row at all, and nobody says why."""
    collect, answers = Session._collect, list[int]()

    def collecting(self: Session, *arguments: Any) -> dict[Ref, dict[str, Any]]:
        rows = collect(self, *arguments)
        answers.append(len(rows))
        return rows if len(answers) > 1 else {}

    monkeypatch.setattr(Session, "_collect", collecting)
    with opened(fleet) as session:
        assert len(session.scan(NAMES)) > 1100
    assert len(answers) == 2


def test_a_scan_without_permission_is_no_empty_list(session: Session, fleet: SimulatedVCenter) -> None:
    """M65."""
    fleet.control.add_fault("ContinueRetrievePropertiesEx", "NoPermission", count=1)
    assert error_of(session.scan, NAMES).code is Code.PERMISSION_DENIED


def test_reading_knows_present_unset_and_gone(session: Session) -> None:
    template = machine(session, "ubuntu-24.04")
    gone = Ref("VirtualMachine", "vm-99999")
    rows = session.read(
        [template, gone, template], {"VirtualMachine": ["name", "snapshot", "config.template"]}
    )
    assert rows == {template: {"name": "ubuntu-24.04", "config.template": True}}
    assert session.read([], NAMES) == {}


def test_an_unknown_property_is_our_mistake_and_named(session: Session) -> None:
    template = machine(session, "ubuntu-24.04")
    error = error_of(session.read, [template], {"VirtualMachine": ["name", "nonsense"]})
    assert error.code is Code.INTERNAL
    assert "nonsense" in error.message
    assert fault_name(error) == "InvalidProperty"


def test_keys_with_odd_characters_are_found(vcenter: SimulatedVCenter) -> None:
    with Soap(vcenter) as soap:
        option = vim.option.OptionValue(key=ODD, value="value <&> ü")
        made = Ref("VirtualMachine", soap.clone("odd", extraConfig=[option])._GetMoId())
    path = f'config.extraConfig["{ODD}"]'
    with opened(vcenter) as session:
        rows = session.read([made], {"VirtualMachine": [path, "config.extraConfig"]})
    assert rows[made][path] == "value <&> ü"
    assert {"_type": "OptionValue", "key": ODD, "value": "value <&> ü"} in rows[made]["config.extraConfig"]


def test_devices_are_plain_and_lists_stay_lists(session: Session) -> None:
    template = machine(session, "ubuntu-24.04")
    paths = ["config.hardware.device", "layoutEx", "datastore", "parent", "config.hardware.memoryMB"]
    row = session.read([template], {"VirtualMachine": paths})[template]
    disk = next(one for one in row["config.hardware.device"] if one["_type"] == "VirtualDisk")
    assert disk["backing"]["_type"] == "VirtualDiskFlatVer2BackingInfo"
    assert isinstance(disk["backing"]["datastore"], Ref)
    assert disk["capacityInKB"].isdigit()
    assert isinstance(row["layoutEx"]["disk"], list)
    assert isinstance(row["layoutEx"]["disk"][0]["chain"], list)
    assert [one.type for one in row["datastore"]] == ["Datastore"]
    assert row["parent"].type == "Folder"
    assert isinstance(row["config.hardware.memoryMB"], int)


def vm(*parts: str, number: int = 1) -> str:
    return f'<obj type="VirtualMachine">vm-{number}</obj>' + "".join(parts)


def prop(name: str, kind: str, inner: str) -> str:
    return f"<propSet><name>{escape(name)}</name><val xsi:type={quoteattr(kind)}>{inner}</val></propSet>"


def missing(path: str, fault: str, fields: str = "") -> str:
    inner = f'<fault xsi:type="{fault}">{fields}</fault><localizedMessage>said</localizedMessage>'
    return f"<missingSet><path>{escape(path)}</path><fault>{inner}</fault></missingSet>"


def read(*objects: str) -> dict[Ref, dict[str, Any]]:
    envelope = (
        '<s:Envelope xmlns:s="http://schemas.xmlsoap.org/soap/envelope/" '
        'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"><s:Body>'
        '<RetrievePropertiesExResponse xmlns="urn:vim25"><returnval>'
    )
    inner = "".join(f"<objects>{one}</objects>" for one in objects)
    end = "</returnval></RetrievePropertiesExResponse></s:Body></s:Envelope>"
    return reader.read_page((envelope + inner + end).encode()).rows


@pytest.mark.parametrize(
    ("held", "read_as"),
    [
        (prop('config.extraConfig["k"]', "OptionValue", "<key>k</key><value>v</value>"), {"k": "v"}),
        (prop('config.extraConfig["k"]', "xsd:string", "v"), {"k": "v"}),
        (prop('config.extraConfig["k"].value', "xsd:string", "v"), {"k": "v"}),
        (missing('config.extraConfig["k"]', "InvalidProperty"), {}),
        ('<propSet><name>config.extraConfig["k"]</name></propSet>', {}),
        ("", {}),
    ],
)
def test_a_keyed_option_is_read_in_all_the_ways_servers_have(held: str, read_as: dict[str, str]) -> None:
    assert [list(row.values()) for row in read(vm(held)).values()] == [list(read_as.values())]


def test_a_row_that_vanished_during_the_read_is_left_out() -> None:
    gone = vm(prop("name", "xsd:string", "half"), missing("config", "ManagedObjectNotFound"), number=2)
    assert read(vm(prop("name", "xsd:string", "a")), gone) == {VM: {"name": "a"}}


@pytest.mark.parametrize("fault", ["NotAuthenticated", "NoPermission", "HostNotConnected"])
def test_a_property_that_is_withheld_is_never_taken_for_absent(fault: str) -> None:
    """M65, and M60: a lost session looks the same and raises nothing by itself."""
    with pytest.raises(Fault) as caught:
        read(vm(missing("config.uuid", fault, "<privilegeId>System.Read</privilegeId>")))
    assert caught.value.name == fault
    assert caught.value.message == "said"
    assert caught.value.fields["path"] == "config.uuid"
    assert caught.value.fields["object"] == VM
    assert caught.value.fields["privilegeId"] == "System.Read"


@pytest.mark.parametrize(
    "text",
    [
        b"<html><body>&nbsp;</body></html>",
        b"not xml at all",
        b"",
        b"<html/>",
        b'<s:Envelope xmlns:s="http://schemas.xmlsoap.org/soap/envelope/"><s:Body/></s:Envelope>',
    ],
)
def test_what_is_no_soap_is_no_answer(text: bytes) -> None:
    with pytest.raises(NoAnswer):
        reader.read_page(text)


@pytest.mark.parametrize(
    "held", [prop("n", "xsd:int", "seven"), "<missingSet><path>name</path></missingSet>"]
)
def test_an_answer_that_makes_no_sense_is_no_answer(held: str) -> None:
    with pytest.raises(NoAnswer):
        read(vm(held))


def test_a_fault_without_detail_is_a_fault_all_the_same() -> None:
    soap = "http://schemas.xmlsoap.org/soap/envelope/"
    for detail in ("", "<detail/>", "<detail><OddFault/></detail>"):
        fault = f"<s:Fault><faultstring>no</faultstring>{detail}</s:Fault>"
        with pytest.raises(Fault) as caught:
            reader.returned(f'<s:Envelope xmlns:s="{soap}"><s:Body>{fault}</s:Body></s:Envelope>'.encode())
        assert caught.value.message == "no"


def test_no_entity_is_resolved(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("the secret")
    text = (
        f'<!DOCTYPE r [<!ENTITY e SYSTEM "{secret.as_uri()}">]>'
        '<s:Envelope xmlns:s="http://schemas.xmlsoap.org/soap/envelope/"><s:Body><A><returnval><objects>'
        '<obj type="VirtualMachine">vm-1</obj><propSet><name>n</name><val>&e;</val></propSet>'
        "</objects></returnval></A></s:Body></s:Envelope>"
    )
    assert "the secret" not in repr(reader.read_page(text.encode()))


NAME = st.text("abcdefghij", min_size=1, max_size=8)
TEXT = st.text(st.characters(blacklist_categories=("Cs", "Cc")), max_size=20)
STRING = TEXT.map(lambda text: ("xsd:string", escape(text), text))
INT = st.integers(-(2**63), 2**63 - 1).map(lambda number: ("xsd:long", str(number), number))
BOOL = st.booleans().map(lambda truth: ("xsd:boolean", str(truth).lower(), truth))
FLOAT = st.floats(allow_nan=False, allow_infinity=False).map(
    lambda number: ("xsd:double", repr(number), number)
)


@given(st.one_of(STRING, INT, BOOL, FLOAT))
def test_scalars_come_out_as_they_went_in(case: tuple[str, str, object]) -> None:
    kind, text, expected = case
    assert read(vm(prop("p", kind, text)))[VM]["p"] == expected


@given(st.lists(TEXT, max_size=4), st.lists(st.integers(0, 9), max_size=4), st.lists(NAME, max_size=4))
def test_arrays_come_out_as_lists(texts: list[str], numbers: list[int], ids: list[str]) -> None:
    strings = "".join(f"<string>{escape(text)}</string>" for text in texts)
    ints = "".join(f"<int>{number}</int>" for number in numbers)
    refs = "".join(f'<ManagedObjectReference type="Folder">{one}</ManagedObjectReference>' for one in ids)
    row = read(
        vm(
            prop("s", "ArrayOfString", strings),
            prop("i", "ArrayOfInt", ints),
            prop("r", "ArrayOfManagedObjectReference", refs),
        )
    )[VM]
    assert row == {"s": texts, "i": numbers, "r": [Ref("Folder", one) for one in ids]}


@pytest.mark.parametrize(
    ("xml", "expected"),
    [
        ("<a><b>1</b><b>2</b><b>3</b><c/></a>", {"b": ["1", "2", "3"], "c": ""}),
        ('<a xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:type="OfANewerServer"/>', ""),
    ],
)
def test_types_that_nobody_knows_are_read_all_the_same(xml: str, expected: object) -> None:
    assert value(etree.fromstring(xml)) == expected


def test_an_empty_data_object_is_one() -> None:
    assert value(etree.fromstring("<a/>"), "VirtualMachineSnapshotInfo") == {
        "_type": "VirtualMachineSnapshotInfo"
    }
