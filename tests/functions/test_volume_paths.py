"""No path leaves a volume's store, whatever a request calls it: each call and file access is looked at as it leaves."""

import unicodedata
from collections.abc import Callable, Iterator
from contextlib import suppress
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from support import machines
from support.scene import Scene, scenes
from support.volumes import (
    INSTALLATION,
    attach,
    contents,
    create,
    destroy,
    detach,
    duplicate,
    get,
    resize,
)
from support.wire import Sent, everything_sent
from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_functions.local.vcenter import SimulatedVCenter
from vsphere_functions.vsphere.files import DatastorePath

STORES = {
    "default": DatastorePath.parse(f"[we ird (1)] vols/VIC/{INSTALLATION}/volumes"),
    "second": DatastorePath.parse(f"[LocalDS_0] other/VIC/{INSTALLATION}/volumes"),
}
SOURCE = "what-is-copied"
NAMES = {"datastorePath", "sourceName", "destName", "destinationName", "fileName"}
"""Elements that hold a path and nothing else; `name` holds one in calls of the managers of files and disks."""
BREAKING = {"Cc", "Cs", "Zl", "Zp"}
"""Categories of characters that end a line, or are none."""
PIECES = st.sampled_from(
    [
        *"ab.-_/\\%[] ü\n",
        "..",
        "../",
        "%2e",
        "%2f",
        "%00",
        "data-1",
        "-flat",
        "-000001",
        ".vmdk",
        "volumes",
        "VIC",
    ]
)
TEXTS = st.lists(PIECES, min_size=1, max_size=6).map("".join)
GOOD = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,12}", fullmatch=True)
IDS = GOOD | TEXTS | st.text(max_size=12)
LINKS = st.builds(
    "vsphere-volume://{}/{}/{}".format, st.sampled_from(["default", ".."]), TEXTS | st.just("second"), IDS
)
PATHS = st.builds(
    "[{}] {}".format,
    st.sampled_from(["LocalDS_0", "we ird (1)", "..", "nowhere"]),
    TEXTS | st.builds(f"vols/VIC/{INSTALLATION}/volumes/{{}}/{{}}.vmdk".format, IDS, IDS),
)


@pytest.fixture(scope="module")
def stage(shared_vcenter: SimulatedVCenter) -> Iterator[Scene]:
    with scenes(shared_vcenter) as made:
        create(made.ctx, SOURCE)
        yield made


def paths_in(sent: Sent) -> Iterator[DatastorePath]:
    """Every path on a datastore that a request holds, as the server would read it."""
    if sent.path.startswith("/folder/"):
        url = urlsplit(sent.path)
        (datastore,) = parse_qs(url.query)["dsName"]
        yield DatastorePath(datastore, tuple(unquote(url.path).removeprefix("/folder/").split("/")))
        return
    for element in etree.fromstring(sent.body).iter("{*}*"):
        text, name = element.text or "", etree.QName(element).localname
        if text.startswith("[") or name in NAMES:
            datastore, _, path = text.removeprefix("[").partition("] ")
            yield DatastorePath(datastore, tuple(path.split("/")) if path else ())


def read_again(path: DatastorePath) -> DatastorePath:
    """Read a path as one does who decodes too often."""
    return DatastorePath(
        path.datastore, tuple(part for one in path.parts for part in unquote(one).split("/"))
    )


def inside(path: DatastorePath, folder: DatastorePath) -> bool:
    """Whether a path is the folder or lies below it, read once, and read again."""
    return all(
        one.datastore == top.datastore
        and one.parts[: len(top.parts)] == top.parts
        and not {"", ".", ".."} & set(one.parts)
        and all(
            unicodedata.category(char) not in BREAKING and char != "\\" for part in one.parts for char in part
        )
        for one, top in ((path, folder), (read_again(path), read_again(folder)))
    )


def stays_inside(asked: Callable[[], object], *folders: DatastorePath) -> list[DatastorePath]:
    """Do it, whatever comes of it, and see that nothing of what was sent leads elsewhere."""
    with everything_sent() as sent:
        try:
            asked()
        except CallError as error:
            assert error.code is not Code.INTERNAL, error  # noqa: PT017 - any other will do
    found = [path for one in sent for path in paths_in(one)]
    assert [path for path in found if not any(inside(path, folder) for folder in folders)] == []
    return found


@settings(max_examples=12)
@given(volume_id=IDS, name=st.sampled_from(sorted(STORES)), to=IDS)
def test_v22_no_id_leads_out_of_its_store(stage: Scene, volume_id: str, name: str, to: str) -> None:
    ctx, folder, where = stage.ctx, STORES[name], {"store": name, "id": volume_id}
    calls: list[Callable[[], object]] = [
        lambda: create(ctx, None, **where),
        lambda: get(ctx, None, **where),
        lambda: resize(ctx, 2 << 20, None, **where),
        lambda: attach(ctx, None, **where),
        lambda: detach(ctx, None, **where),
        lambda: duplicate(ctx, to, None, **where),
        lambda: machines.validate(ctx, "made", volumes=[where]),
        lambda: destroy(ctx, None, **where),
        lambda: destroy(ctx, to, store=name),
    ]
    for asked in calls:
        stays_inside(asked, folder)
    stays_inside(lambda: duplicate(ctx, volume_id, SOURCE, toStore=name), *STORES.values())
    stays_inside(lambda: destroy(ctx, None, **where), folder)
    assert contents(ctx).keys() == {"", SOURCE}
    assert contents(ctx, "second").keys() <= {""}


@settings(max_examples=25)
@given(link=LINKS)
def test_v22_no_link_leads_out_of_the_stores(stage: Scene, link: str) -> None:
    ctx, named = stage.ctx, {"selfLink": link}
    calls: list[Callable[[], object]] = [
        lambda: get(ctx, None, **named),
        lambda: attach(ctx, None, **named),
        lambda: detach(ctx, None, **named),
        lambda: resize(ctx, 2 << 20, None, **named),
        lambda: duplicate(ctx, "copy", None, **named),
        lambda: machines.validate(ctx, "made", volumes=[named]),
        lambda: destroy(ctx, None, **named),
        lambda: destroy(ctx, "copy"),
    ]
    for asked in calls:
        stays_inside(asked, *STORES.values())


@settings(max_examples=40)
@given(path=PATHS)
def test_v22_a_path_leads_to_that_disk_or_into_its_store(stage: Scene, path: str) -> None:
    """Outside of stores a disk is named by its path, which may be any that leads to no other place than it says."""
    ctx, allowed = stage.ctx, list(STORES.values())
    with suppress(ValueError):
        allowed.append(DatastorePath.parse(path).parent)
    calls: list[Callable[[], object]] = [
        lambda: attach(ctx, None, vmdkPath=path),
        lambda: detach(ctx, None, vmdkPath=path),
        lambda: machines.validate(ctx, "made", volumes=[{"vmdkPath": path}]),
    ]
    for asked in calls:
        stays_inside(asked, *allowed)


def test_what_is_looked_at_is_what_is_sent(stage: Scene) -> None:
    """Each kind of call is seen to hold its paths: a look that finds nothing would find nothing wrong."""
    ctx, folder = stage.ctx, STORES["default"]
    calls: dict[str, Callable[[], object]] = {
        "create": lambda: create(ctx, "looked-at"),
        "get": lambda: get(ctx, "looked-at"),
        "attach": lambda: attach(ctx, "looked-at"),
        "detach": lambda: detach(ctx, "looked-at"),
        "resize": lambda: resize(ctx, 2 << 20, "looked-at"),
        "copy": lambda: duplicate(ctx, "copied", "looked-at"),
        "destroy": lambda: destroy(ctx, "looked-at"),
    }
    for name, asked in calls.items():
        found = stays_inside(asked, folder)
        assert any("looked-at" in one.parts for one in found), name
    destroy(ctx, "copied")
