"""M11: names are escaped once for vSphere and unescaped once for people."""

from hypothesis import given
from hypothesis import strategies as st

from vsphere_functions.vsphere.names import escape, unescape


@given(st.text())
def test_a_name_comes_back_from_vsphere_as_it_went(name: str) -> None:
    assert unescape(escape(name)) == name
    assert not {"/", "\\"} & set(escape(name))


def test_m11_escapes_are_those_of_vsphere() -> None:
    assert escape("a/b\\c 100%2f") == "a%2fb%5cc 100%252f"
    assert unescape("A%2Fb 100% %zz") == "A/b 100% %zz"
