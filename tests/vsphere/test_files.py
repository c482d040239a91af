"""Datastore paths, and the file access on the simulated vCenter."""

from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.gateway import end_other_sessions, error_of, opened
from support.volumes import create, files_of, found_store, with_stores
from vsphere_events.code import Code
from vsphere_functions.local.vcenter import SimulatedVCenter
from vsphere_functions.vsphere import files as files_of_datastores
from vsphere_functions.vsphere.files import DatastorePath, Files, plain_uuid
from vsphere_functions.vsphere.ref import Ref
from vsphere_functions.vsphere.stores import overlap

NAMES = st.text(st.characters(exclude_characters="/", exclude_categories=["C"]), min_size=1).filter(
    lambda name: name not in (".", "..") and name == name.strip(" ")
)
STORES = NAMES.filter(lambda name: not {"[", "]"} & set(name) and name.strip())


@given(STORES, st.lists(NAMES).map(tuple))
def test_a_path_comes_back_as_it_was_written(datastore: str, parts: tuple[str, ...]) -> None:
    path = DatastorePath(datastore, parts)
    assert DatastorePath.parse(str(path)) == path


@pytest.mark.parametrize("text", ["[ds] a/b", "[ds]a//b/", "[ds] /a/b"])
def test_a_path_has_one_spelling(text: str) -> None:
    assert str(DatastorePath.parse(text)) == "[ds] a/b"


@pytest.mark.parametrize(
    "text", ["", "a/b", "ds] a", "[ds a", "[] a", "[ ] a", "[ds] ../a", "[ds] a/../b", "[ds] ./a"]
)
def test_what_is_no_path_or_leads_upwards_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"datastore"):
        DatastorePath.parse(text)


@given(NAMES, STORES, st.lists(NAMES, min_size=1).map(tuple))
def test_a_url_says_exactly_which_file(center: str, datastore: str, parts: tuple[str, ...]) -> None:
    files = Files(None, Ref("Datacenter", "dc"), center, Ref("HostDatastoreBrowser", "b"))  # type: ignore[arg-type]  # no call is made
    url = urlsplit(files.url(DatastorePath(datastore, parts)))
    assert tuple(unquote(part) for part in url.path.split("/")[2:]) == parts
    assert parse_qs(url.query, strict_parsing=True) == {"dcPath": [center], "dsName": [datastore]}
    assert "+" not in url.path


def test_places_overlap_when_one_lies_in_the_other() -> None:
    one = ("ds:///1", ("a", "b"))
    assert overlap(one, ("ds:///1", ("a",)))
    assert overlap(("ds:///1", ("a",)), one)
    assert overlap(one, one)
    assert not overlap(one, ("ds:///1", ("a", "c")))
    assert not overlap(one, ("ds:///2", ("a", "b")))


@pytest.mark.parametrize(
    "text", ["60 00 C2 9a 7d fb d1 5b-d5 b1 9d 8f 2b c1 b0 60", "6000C29a-7dfb-d15b-d5b1-9d8f2bc1b060"]
)
def test_a_uuid_compares_in_whatever_form_it_is_written(text: str) -> None:
    assert plain_uuid(text) == "6000c29a7dfbd15bd5b19d8f2bc1b060"


def test_no_uuid_is_none() -> None:
    assert plain_uuid(None) == ""


def test_files_are_written_read_and_found(shared_vcenter: SimulatedVCenter) -> None:
    with with_stores(shared_vcenter) as ctx:
        files, where = files_of(ctx), found_store(ctx).folder / "files"
        body = bytes(range(256)) * 300
        files.write(where / "a+b&c d", body)
        assert files.read(where / "a+b&c d") == body
        assert files.read(where / "other") is None
        assert files.read(where / "not" / "there") is None
        assert [dict(one.files) for one in files.browse(where)] == [{"a+b&c d": len(body)}]
        assert files.browse(where / "nowhere") == []


def test_a_folder_that_is_there_is_taken_only_once(shared_vcenter: SimulatedVCenter) -> None:
    with with_stores(shared_vcenter) as ctx:
        files, where = files_of(ctx), found_store(ctx).folder / "folders"
        files.make_folder(where, parents=True)
        files.make_folder(where, parents=True)
        assert error_of(files.make_folder, where).code is Code.ALREADY_EXISTS


def test_file_access_outlives_its_session(shared_vcenter: SimulatedVCenter) -> None:
    with with_stores(shared_vcenter) as ctx, opened(shared_vcenter) as admin:
        files, where = files_of(ctx), found_store(ctx).folder / "sessions"
        end_other_sessions(admin)
        files.write(where / "a", b"1")
        assert files.browse(where)[0].files == {"a": 1}


def test_a_refused_file_is_an_error_with_its_path(shared_vcenter: SimulatedVCenter) -> None:
    with with_stores(shared_vcenter) as ctx:
        failed = error_of(files_of(ctx).read, DatastorePath("we ird (1)", ("a..b",)))
    assert failed.code is Code.INVALID_ARGUMENT
    assert "HTTP 400" in failed.message


def test_a_search_that_does_not_end_is_given_up(
    vcenter: SimulatedVCenter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A datastore that hangs would keep a thread for ever: no step comes by at which its time is looked at."""
    monkeypatch.setattr(files_of_datastores, "PATIENCE", 0.5)
    with with_stores(vcenter) as ctx:
        create(ctx)
        files, where = files_of(ctx), found_store(ctx).folder
        vcenter.control.delay(SearchDatastore=60_000, SearchDatastoreSubFolders=60_000)
        failed = error_of(files.browse, where)
        assert (failed.code, "has not looked through" in failed.message) == (Code.UNAVAILABLE, True)
