"""The owner that tags name, in both of Gardener's spellings."""

import pytest

from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_events.owner import Owner, owner_of

OLD = {"kubernetes.io/cluster/shoot--a": "1", "kubernetes.io/role/node": ""}
NEW = {"mcm.gardener.cloud/cluster": "shoot--a", "mcm.gardener.cloud/role": "node"}
OTHER_OLD = {"kubernetes.io/cluster/shoot--b": "1", "kubernetes.io/role/node": "1"}
OTHER_NEW = {"mcm.gardener.cloud/cluster": "shoot--b", "mcm.gardener.cloud/role": "node"}


@pytest.mark.parametrize(
    ("one", "two", "same"),
    [
        (OLD, OLD | {"kubernetes.io/role/node": "yes", "team": "x"}, True),
        (OLD, OTHER_OLD, False),
        (OLD, NEW, True),
        (NEW, OLD, True),
        (NEW, NEW, True),
        (NEW, OTHER_NEW, False),
        (OLD, OTHER_NEW, False),
        (OLD | NEW, NEW, True),
        (NEW, NEW | {"mcm.gardener.cloud/role": "master"}, False),
    ],
)
def test_two_sets_of_tags_name_the_same_owner(one: dict[str, str], two: dict[str, str], same: bool) -> None:
    assert (owner_of(one) == owner_of(two)) is same


def test_an_owner_is_cluster_slash_role() -> None:
    assert owner_of(NEW) == Owner("shoot--a", "node")
    assert str(owner_of(OLD)) == "shoot--a/node"


@pytest.mark.parametrize(
    ("tags", "reasons"),
    [
        ({}, 2),
        ({"team": "x"}, 2),
        ({"mcm.gardener.cloud/cluster": "a"}, 1),
        ({"kubernetes.io/role/node": "1"}, 1),
        (OLD | OTHER_OLD, 1),
        (OLD | OTHER_NEW, 1),
        (NEW | {"kubernetes.io/role/master": "1"}, 1),
        (NEW | {"mcm.gardener.cloud/cluster": ""}, 1),
        (NEW | {"mcm.gardener.cloud/cluster": "a/b"}, 1),
        (NEW | {"mcm.gardener.cloud/role": "a b"}, 1),
        (NEW | {"mcm.gardener.cloud/role": "a\x00"}, 1),
        ({"kubernetes.io/cluster/": "1", "kubernetes.io/role/": "1"}, 2),
    ],
)
def test_tags_that_name_no_owner_or_two_are_refused(tags: dict[str, str], reasons: int) -> None:
    with pytest.raises(CallError) as caught:
        owner_of(tags)
    assert caught.value.code is Code.INVALID_ARGUMENT
    assert len(caught.value.details) == reasons
