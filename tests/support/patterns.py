"""All regular expressions of the packages, and texts that make each of them work as hard as it can."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from re import _constants as op  # type: ignore[attr-defined]  # the parser has no public name
from re import _parser as parser  # type: ignore[attr-defined]  # likewise
from typing import Any

ROOT = Path(__file__).parents[2]
REPEATS = 300_000
"""Often enough that a quadratic search takes minutes, and an exponential one for ever."""

_SEARCHES = {"search", "sub", "findall", "split", "finditer"}
_CALLS = {"compile", "match", "fullmatch"} | _SEARCHES
_SAMPLES = "aA0-_./: \t\n\"'\\{[%=é\x00"


def patterns() -> Iterator[tuple[str, str, bool]]:
    """Give where each pattern stands, its text, and whether it is looked for anywhere in a text."""
    for file in sorted(file for part in ("events", "functions") for file in (ROOT / part).rglob("*.py")):
        text = file.read_text("utf-8")
        if "import re" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and (found := _pattern(node)):
                yield f"{file.name}:{node.lineno}", found[0], found[1] or _is_searched_for(node, text)


def _pattern(node: ast.Call) -> tuple[str, bool] | None:
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="re"), attr=method), args=[first, *_]):
            text = _text(first) if method in _CALLS else None
            return (text, method in _SEARCHES) if text is not None else None
    return None


def _is_searched_for(node: ast.Call, text: str) -> bool:
    """Tell by the name that a compiled pattern is given."""
    line = text.splitlines()[node.lineno - 1]
    name = re.match(r"\s*(\w+)(: [^=]+)? = ", line)
    return (
        name is not None
        and re.search(rf"\b{name[1]}\.(search|sub|findall|split|finditer)\(", text) is not None
    )


def _text(node: ast.expr) -> str | None:
    if isinstance(node, ast.JoinedStr):  # what is put in is a number
        return "".join(str(one.value) if isinstance(one, ast.Constant) else "255" for one in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def worst(pattern: str) -> Iterator[str]:
    """Give texts that reach each repeat of a pattern, fill it, and then do not match."""
    for before, body in _repeats(parser.parse(pattern), ""):
        for pump in {body, body[:1] or "a"}:
            yield before + (pump or "a") * REPEATS + "\x01"
    yield from (sample * REPEATS + "\x01" for sample in _SAMPLES)


def _repeats(tree: Any, before: str) -> Iterator[tuple[str, str]]:
    for kind, given in tree:
        if kind in {op.MAX_REPEAT, op.MIN_REPEAT} and given[1] > 1:
            yield before, _least(given[2]) or "a"
        for inner in _inside(kind, given):
            yield from _repeats(inner, before)
        before += _least([(kind, given)])


def _inside(kind: Any, given: Any) -> list[Any]:
    if kind in {op.MAX_REPEAT, op.MIN_REPEAT}:
        return [given[2]]
    if kind is op.SUBPATTERN:
        return [given[3]]
    return list(given[1]) if kind is op.BRANCH else []


def _least(tree: Any) -> str:
    """Give a short text that the pattern matches."""
    return "".join(_one(kind, given) for kind, given in tree)


def _one(kind: Any, given: Any) -> str:
    if kind is op.LITERAL:
        return chr(given)
    if kind in {op.MAX_REPEAT, op.MIN_REPEAT}:
        return _least(given[2]) * max(1, int(given[0]))
    if kind is op.SUBPATTERN:
        return _least(given[3])
    if kind is op.BRANCH:
        return _least(given[1][0])
    if kind in {op.IN, op.NOT_LITERAL, op.ANY}:
        return next((char for char in _SAMPLES if _takes(kind, given, char)), "a")
    return ""


def _takes(kind: Any, given: Any, char: str) -> bool:
    state = parser.State()
    state.str = ""
    single = parser.SubPattern(state, [(kind, given)])
    from re import _compiler as compiler  # type: ignore[attr-defined]  # noqa: PLC0415 - likewise

    compiled: re.Pattern[str] = compiler.compile(single)
    return compiled.fullmatch(char) is not None
