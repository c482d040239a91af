"""Words that come again and again are said seldom."""

from vsphere_functions.hosts.seldom import Seldom


def said(seldom: Seldom, now: list[float], words: str, seconds: int) -> list[int]:
    """The seconds at which words that come every second are said."""
    found = []
    for second in range(seconds):
        now[0] = second
        if seldom.due(words):
            found.append(second)
    return found


def test_the_same_words_are_said_at_once_and_then_after_growing_pauses() -> None:
    now = [0.0]
    assert said(Seldom(lambda: now[0]), now, "away", 3000) == [0, 10, 30, 70, 150, 310, 630, 1270, 1910, 2550]


def test_other_words_are_news_and_so_is_all_after_an_outage_has_ended() -> None:
    seldom = Seldom(lambda: 0)
    assert seldom.due("away")
    assert not seldom.due("away")
    assert seldom.due("forbidden")
    seldom.anew()
    assert seldom.due("away")


def test_few_words_are_remembered() -> None:
    seldom = Seldom(lambda: 0)
    assert all(seldom.due(str(number)) for number in range(1000))
    assert not seldom.due("999")
