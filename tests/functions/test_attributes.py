"""Tags as custom attributes: shown to people, and mended when somebody removes them."""

from support.gateway import error_of
from support.machines import TAGS, at, create, status
from vsphere_events.code import Code
from vsphere_functions.local.vcenter import SimulatedVCenter

OURS = "/DC0/vm/demo/machines/worker-1"
CLUSTER = "mcm.gardener.cloud/cluster"


def shown(vcenter: SimulatedVCenter) -> dict[str, str]:
    """What govc shows of the machine's attributes."""
    return {one["key"]: one["value"] for one in vcenter.govc("fields.info", "-json", OURS)["info"] or []}


def test_an_attribute_of_the_same_name_for_hosts_confuses_nothing(vcenter: SimulatedVCenter) -> None:
    vcenter.govc("fields.add", "-type", "HostSystem", CLUSTER)
    with at(vcenter) as ctx:
        create(ctx)
    assert shown(vcenter) == TAGS


def test_a_value_that_was_changed_is_shown_again_by_the_next_create(vcenter: SimulatedVCenter) -> None:
    with at(vcenter) as ctx:
        create(ctx)
        vcenter.govc("fields.set", CLUSTER, "mine", OURS)
        assert status(ctx).phase == "Running"  # attributes decide nothing
        create(ctx)
    assert shown(vcenter) == TAGS


def test_an_attribute_that_was_removed_is_made_anew(vcenter: SimulatedVCenter) -> None:
    with at(vcenter) as ctx:
        create(ctx)
        vcenter.govc("fields.rm", CLUSTER)
        failed = error_of(create, ctx, "worker-2")  # its key is remembered from before
        assert failed.code is Code.ABORTED
        create(ctx, "worker-2")
        create(ctx)
    assert shown(vcenter) == TAGS
