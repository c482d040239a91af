"""list_machines on the simulated vCenter: whole, or not at all."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from support.gateway import end_other_sessions, error_of, opened
from support.machines import OTHERS, TAGS, at, create, creation, delete, extra, foreign, listing, many
from support.soap import Soap
from support.wire import without_config
from vsphere_events.code import Code
from vsphere_functions.local.vcenter import SimulatedVCenter
from vsphere_functions.machine.create_machine import create_machine
from vsphere_functions.vsphere.identity import MARK, Mark
from vsphere_functions.vsphere.inventory import every_vm
from vsphere_functions.vsphere.session import Session

OURS = "/DC0/vm/demo/machines/worker-1"


class Creating:
    """Operation records in which creates have begun."""

    def __init__(self, *names: str) -> None:
        self.names = frozenset(names)

    def creating(self, owner: str) -> frozenset[str]:
        return self.names if owner == "shoot--demo--a/node" else frozenset()


def test_the_owners_machines_are_listed_wherever_they_lie(vcenter: SimulatedVCenter) -> None:
    with at(vcenter) as ctx:
        made = [
            create(ctx),
            create(ctx, "worker-2", folder="demo/machines/a/b"),
            create(ctx, "worker-3", datacenter="DC1"),
        ]
        create(ctx, "worker-4", tags=OTHERS)
        foreign(vcenter, "worker-5")
        found = listing(ctx)
    assert found.machine_list == {str(one.provider_id): one.node_name for one in made}
    assert (found.creating, found.copies, found.unknown, found.next_page_token) == ((), (), (), None)


def test_both_spellings_of_the_tags_are_the_same_owner(vcenter: SimulatedVCenter) -> None:
    old = {"kubernetes.io/cluster/shoot--demo--a": "1", "kubernetes.io/role/node": "1"}
    with at(vcenter) as ctx:
        create(ctx)
        assert listing(ctx, tags=old) == listing(ctx, tags=TAGS) != listing(ctx, tags=OTHERS)


def test_no_machine_is_an_empty_list(shared_vcenter: SimulatedVCenter) -> None:
    with at(shared_vcenter) as ctx:
        assert listing(ctx).machine_list == {}


def test_m07_a_machine_in_creation_is_in_it_and_marked(vcenter: SimulatedVCenter) -> None:
    vcenter.control.delay(CloneVm=1000)
    with at(vcenter, unfinished=Creating("worker-1")) as ctx:
        began = create_machine(creation(), ctx)
        next(began)
        assert (listing(ctx).machine_list, listing(ctx).creating) == ({}, ("worker-1",))
        while next(began).phase == "clone":
            pass
        half = listing(ctx)
        assert (list(half.machine_list.values()), half.creating) == (["worker-1"], ("worker-1",))
    with at(vcenter) as ctx:
        assert listing(ctx).creating == ("worker-1",)  # nobody's record, but half built all the same
        create(ctx)
        assert listing(ctx).creating == ()
    with at(vcenter, unfinished=Creating("worker-1")) as ctx:
        assert listing(ctx).creating == ()  # it is ready, though its record is open still


def test_m17_a_machine_made_a_template_is_no_machine(vcenter: SimulatedVCenter) -> None:
    with at(vcenter) as ctx:
        create(ctx)
        vcenter.govc("vm.power", "-off", OURS)
        vcenter.govc("vm.markastemplate", OURS)
        found = listing(ctx)
    assert (found.machine_list, found.copies) == ({}, ())


def test_a_copy_is_told_and_not_listed(vcenter: SimulatedVCenter) -> None:
    with at(vcenter) as ctx:
        create(ctx)
        copy = foreign(vcenter, "copy")
        mark = extra(vcenter)["vspherefunctions.mark"]
        vcenter.govc("vm.change", "-dc", "DC0", "-vm", copy, "-e", f"vspherefunctions.mark={mark}")
        found = listing(ctx)
    assert (list(found.machine_list.values()), found.copies) == (["worker-1"], ("copy",))


def test_m24_a_list_with_an_unreadable_vm_of_the_owner_fails(
    vcenter: SimulatedVCenter, monkeypatch: pytest.MonkeyPatch
) -> None:
    with at(vcenter) as ctx:
        create(ctx)
        create(ctx, "worker-2")
        without_config(monkeypatch, "worker-2")
        failed = error_of(listing, ctx)
    assert failed.code is Code.UNAVAILABLE
    assert "worker-2" in failed.message


def test_m24_an_unreadable_vm_in_the_specs_folder_fails_the_list_and_one_elsewhere_is_told(
    vcenter: SimulatedVCenter, monkeypatch: pytest.MonkeyPatch
) -> None:
    with at(vcenter) as ctx:
        create(ctx)
        foreign(vcenter, "odd")
        without_config(monkeypatch, "odd")
        place = {"datacenter": "DC0", "folder": "demo"}
        assert error_of(listing, ctx, spec=place).code is Code.UNAVAILABLE
        found = listing(ctx, spec={"datacenter": "DC0", "folder": "templates"})
        assert (list(found.machine_list.values()), found.unknown) == (["worker-1"], ("odd",))
        assert listing(ctx).unknown == ("odd",)


def test_a_vm_without_config_that_is_being_created_is_no_riddle(
    vcenter: SimulatedVCenter, monkeypatch: pytest.MonkeyPatch
) -> None:
    with at(vcenter, unfinished=Creating("worker-2")) as ctx:
        create(ctx)
        create(ctx, "worker-2")
        without_config(monkeypatch, "worker-2")
        found = listing(ctx)
    assert (list(found.machine_list.values()), found.creating) == (["worker-1"], ("worker-2",))


def test_m66_300_machines_come_in_small_pages_without_gap_or_repeat(vcenter: SimulatedVCenter) -> None:
    with at(vcenter) as ctx, Soap(vcenter) as soap:
        made = many(soap, 300)
        names: dict[str, str] = {}
        token, pages = None, 0
        while True:
            page = listing(ctx, pageSize=70, **({"pageToken": token} if token else {}))
            assert not names.keys() & page.machine_list.keys()
            names |= page.machine_list
            pages += 1
            if (token := page.next_page_token) is None:
                break
    assert (len(names), pages) == (300, 5)
    assert sorted(names.values()) == made


def test_m26_a_session_that_ends_in_the_middle_of_a_list_leaves_it_whole(
    vcenter: SimulatedVCenter, monkeypatch: pytest.MonkeyPatch
) -> None:
    with at(vcenter) as ctx, opened(vcenter) as admin:
        for number in range(3):
            create(ctx, f"worker-{number}")
        post = Session._post
        ended: list[int] = []

        def posting(self: Session, body: bytes, *more: Any, **named: Any) -> bytes:
            if b"RetrievePropertiesEx" in body and not ended and self is not admin:
                ended.append(1)
                end_other_sessions(admin)
            return post(self, body, *more, **named)

        monkeypatch.setattr(Session, "_post", posting)
        found = listing(ctx)
    assert ended
    assert len(found.machine_list) == 3


@pytest.mark.parametrize("at_page", [1, 2])
def test_m26_a_page_that_does_not_come_fails_the_list(vcenter: SimulatedVCenter, at_page: int) -> None:
    method = "RetrievePropertiesEx" if at_page == 1 else "CreateContainerView"
    vcenter.control.add_fault(method, "SystemError")
    with at(vcenter) as ctx:
        assert error_of(listing, ctx).code in {Code.UNKNOWN, Code.UNAVAILABLE, Code.INTERNAL}


def test_m65_a_list_without_a_permission_fails(vcenter: SimulatedVCenter) -> None:
    vcenter.control.add_fault(
        "RetrievePropertiesEx", "NoPermission", fields={"privilegeId": "System.Read"}, count=1
    )
    with at(vcenter) as ctx:
        failed = error_of(listing, ctx)
    assert failed.code is Code.PERMISSION_DENIED
    assert "System.Read" in failed.message


def test_equal_lists_share_one_pass(vcenter: SimulatedVCenter) -> None:
    vcenter.control.delay(CreateContainerView=300)
    with at(vcenter) as ctx:
        create(ctx)
        vcenter.control.reset_calls()
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda _: listing(ctx), range(8)))
        assert all(one == found[0] for one in found)
        assert vcenter.control.calls()["CreateContainerView"] <= 3


def test_who_shares_a_pass_is_given_the_same_machines(vcenter: SimulatedVCenter) -> None:
    """Sixteen threads that ask would otherwise each hold the marks of all machines."""
    vcenter.control.delay(CreateContainerView=300)
    with at(vcenter) as ctx:
        create(ctx)
        vcenter.control.reset_calls()
        with ThreadPoolExecutor(8) as pool:
            seen = list(pool.map(lambda _: every_vm(ctx.vcenter()), range(8)))
        passes = vcenter.control.calls()["CreateContainerView"]
    assert len({id(one) for machines in seen for one in machines if one.mark}) == passes


def test_a_list_sees_what_was_made_before_it_was_asked_for(vcenter: SimulatedVCenter) -> None:
    """A pass that runs already is not joined: it may have gone by the place of the new machine."""
    vcenter.control.delay(CreateContainerView=500)
    with at(vcenter) as ctx:
        early = threading.Thread(target=listing, args=(ctx,))
        early.start()
        create(ctx)
        assert list(listing(ctx).machine_list.values()) == ["worker-1"]
        early.join()
        delete(ctx)
        assert listing(ctx).machine_list == {}


def test_a_list_of_a_thousand_takes_at_most_six_calls(vcsim_binary: object) -> None:
    assert vcsim_binary
    mark = Mark("shoot--demo--a/node", "{name}", "-", "{uuid}", "{uuid}", "-", phase="ready")
    with SimulatedVCenter(vms=1000, marks={MARK: str(mark)}) as vcenter, at(vcenter) as ctx:
        listing(ctx)
        vcenter.control.reset_calls()
        assert len(listing(ctx).machine_list) == 1000
        assert vcenter.control.calls().total() <= 6
