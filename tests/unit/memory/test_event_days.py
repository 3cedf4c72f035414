"""Days in statements."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brain.memory.event_days import find_event_day, find_iso_days

SAID = date(2026, 2, 10)


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("The user moved on 2026-01-09.", date(2026, 1, 9)),
        ("I moved yesterday", date(2026, 2, 9)),
        ("the day before yesterday we left", date(2026, 2, 8)),
        ("we leave tomorrow", date(2026, 2, 11)),
        ("The work starts on April 7", date(2026, 4, 7)),
        ("on Dec. 24th we met", date(2025, 12, 24)),
        ("on 3 May 2027", date(2027, 5, 3)),
        ("on the 3rd of May", date(2026, 5, 3)),
        ("昨天上线了", date(2026, 2, 9)),
        ("4月15日上线", date(2026, 4, 15)),
        ("2027年4月15号", date(2027, 4, 15)),
        ("三月末で退職します", None),
        ("My manager goes on leave from May 4 until August 30", date(2026, 5, 4)),
        ("The exam was moved from April 7 to April 9", None),
        ("7-9 April we are in Rome", date(2026, 4, 7)),
        ("5月4日から8月30日まで休みます", date(2026, 5, 4)),
        ("四月十五日上线", date(2026, 4, 15)),
        ("二〇二七年四月二十一日上线", date(2027, 4, 21)),
        ("去年4月3日搬家了", date(2025, 4, 3)),
        ("来年の4月3日に引っ越します", date(2027, 4, 3)),
        ("昭和45年4月3日の手紙", None),
        ("五一去敦煌", None),
        ("我生日是四月三日", None),
        ("每年4月3日去扫墓", None),
        ("we met three days ago", date(2026, 2, 7)),
        ("we met 2 or 3 days ago", None),
        ("we met about 3 days ago", None),
        ("she arrives in 5 days", date(2026, 2, 15)),
        ("in 5 days we had it done", None),
        ("三天前搬家了", date(2026, 2, 7)),
        ("两三天前搬家了", None),
        ("三日後に出発します", date(2026, 2, 13)),
        ("他三天后就走了", None),
        ("4月3日前に返します", date(2026, 4, 3)),
        ("大前天到的", date(2026, 2, 7)),
        # 2026-02-10 is a Tuesday.
        ("My sister started as a welder on Monday", date(2026, 2, 9)),
        ("I started on Tuesday", None),
        ("My course starts on Thursday", date(2026, 2, 12)),
        ("a parcel on Thursday", None),
        ("Every week I swim on Thursday", None),
        ("We never deploy on Friday", None),
        ("Ada left last Tuesday and now works elsewhere", date(2026, 2, 3)),
        ("Ada leaves next Friday", None),
        ("Ada leaves this Friday", date(2026, 2, 13)),
        ("It happened on Thursday last week", date(2026, 2, 5)),
        ("上周五去了医院", date(2026, 2, 6)),
        ("上周一直下雨", None),
        ("下周三要面试", date(2026, 2, 18)),
        ("先週の金曜に退院しました", date(2026, 2, 6)),
        ("陶芸教室は木曜から土曜の午後に変わりました", None),
        ("on Monday, April 6 we fly", date(2026, 4, 6)),
        ("My mother Ingrid turns 70 on September 9, and we plan a party", date(2026, 9, 9)),
        ("Biscuit had surgery on September 9.", date(2025, 9, 9)),
        ("September 9: surgery", None),
        ("She was born on March 3", None),
        ("She was born on March 3, 1990", date(1990, 3, 3)),
        ("I moved yesterday and the party is on April 7", None),
        ("yesterday rain, tomorrow sun", None),
        ("we march 10 miles", None),
        ("in May 12 people came", None),
        ("the log of 2026/01/09", date(2026, 1, 9)),
        ("記録は2026/01/09に残した", date(2026, 1, 9)),
        ("用户于2026-01-09搬家", date(2026, 1, 9)),
        ("see /logs/2026/01/09/x.log", None),
        ("last year on April 7 we met", date(2025, 4, 7)),
        ("last week we moved", None),
        ("in April we move", None),
        ("on 2026-02-30", None),
        ("I may be late, around 5", None),
        ("nothing here", None),
        ("It happened on 2026-01-09, that is January 9.", date(2026, 1, 9)),
    ],
)
def test_day_of_a_statement(text, day):
    assert find_event_day(text, SAID) == day


def test_without_a_day_of_its_own_nothing_relative_is_known():
    assert find_event_day("I moved yesterday", None) is None
    assert find_event_day("on April 7", None) is None
    assert find_event_day("on 2026-04-07", None) == date(2026, 4, 7)


def test_iso_days_are_listed_once_and_only_if_real():
    assert find_iso_days("2026-01-02, 2026-13-01, 2026-01-02, 2026-03-04") == [date(2026, 1, 2), date(2026, 3, 4)]


@given(st.text(max_size=300))
def test_no_text_breaks_it(text):
    find_event_day(text, SAID)
