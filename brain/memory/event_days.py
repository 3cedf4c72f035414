"""The day a statement is about, where its words leave no doubt: dates, weekdays and words like yesterday.

English, Chinese and Japanese; all counts from the day on which it was said. A date without a year needs the tense of its clause;
where two days are as likely, none is named.
"""

from __future__ import annotations

import re
import unicodedata
from datetime import date, timedelta
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

Tense: TypeAlias = Literal["past", "future"]

_ISO: Final = re.compile(r"(?<!\d)(\d{4})-(\d{2})-(\d{2})(?!\d)", re.ASCII)
_SLASHED: Final = re.compile(r"(?<![0-9A-Za-z_/.])(\d{4})/(\d{1,2})/(\d{1,2})(?![0-9A-Za-z_/])", re.ASCII)

_MONTHS: Final = (
    "january february march april may june july august september october november december".split()  # noqa: SIM905 - reads better
)
_MONTH: Final = "|".join(
    f"{name[:3]}(?:{name[3:]}|t)?" if name[:3] == "sep" else f"{name[:3]}(?:{name[3:]})?" for name in _MONTHS
)
_WEEKDAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_WEEKDAY: Final = "|".join(_WEEKDAYS)
_TH: Final = "(?:st|nd|rd|th)?"
_MONTH_FIRST: Final = re.compile(
    rf"\b(?P<month>{_MONTH})\b\.?\s+(?:the\s+)?(?P<day>\d{{1,2}}){_TH}\b(?![,.:]?\d|\s*%)"
    rf"(?:\s*[-–]\s*\d{{1,2}}{_TH}\b)?(?:,?\s+(?P<year>\d{{4}})\b)?",
    re.IGNORECASE | re.ASCII,
)
_DAY_FIRST: Final = re.compile(
    rf"(?<![\d.,:/-])\b(?:(?P<start>\d{{1,2}}){_TH}\s*(?:-|–|to|until|and|&)\s*)?(?P<day>\d{{1,2}}){_TH}\s+(?:of\s+)?"
    rf"(?P<month>{_MONTH})\b\.?(?:,?\s+(?P<year>\d{{4}})\b)?",
    re.IGNORECASE | re.ASCII,
)
_LOOKS_LIKE_A_VERB: Final = frozenset({"may", "march", "mar"})
_BESIDE_A_DATE: Final = re.compile(rf"\b(?:{_WEEKDAY}),?\s+(?:the\s+)?(?=\d|(?:{_MONTH})\b)", re.IGNORECASE)

_DIGITS: Final = "一二三四五六七八九"
NUMERAL: Final = rf"(?:\d{{1,2}}|[{_DIGITS}两兩十廿卅]{{1,3}})"
"""A number up to 99 in figures or Chinese; see ``read_numeral``."""
_DENSE: Final = re.compile(
    rf"(?:(?P<year>\d{{4}}|[〇零○{_DIGITS}]{{4}})\s*年の?\s*|(?P<which>前年|去年|昨年|今年|本年|来年|來年|明年)の?\s*"
    rf"|(?P<era>[\d元{_DIGITS}十]+\s*年の?\s*|[农農阴陰旧舊][历曆暦]の?\s*))?"
    rf"(?<![\d{_DIGITS}十])(?P<month>{NUMERAL})\s*月\s*(?P<day>{NUMERAL})\s*[日号號]",
)
_WHICH_YEAR: Final = {"前年": -2, "去年": -1, "昨年": -1, "今年": 0, "本年": 0, "来年": 1, "來年": 1, "明年": 1}

_RELATIVE: Final = (
    (re.compile(r"大前天"), -3),
    (re.compile(r"大[后後]天|明々後日"), 3),
    (re.compile(r"\bday before yesterday\b|前天|一昨日|おととい", re.IGNORECASE), -2),
    (re.compile(r"\bday after tomorrow\b|[后後]天(?!性)|明後日|あさって", re.IGNORECASE), 2),
    (re.compile(r"\byesterday\b|\blast night\b|昨天|昨晚|昨日|昨夜", re.IGNORECASE), -1),
    (re.compile(r"\btomorrow\b|明天|明日", re.IGNORECASE), 1),
    (re.compile(r"\b(?:today|tonight|this morning)\b|今天|今日|今朝", re.IGNORECASE), 0),
)
_SMALL: Final = {
    word: value
    for value, word in enumerate("one two three four five six seven eight nine ten eleven twelve".split(), 1)  # noqa: SIM905
}
_COUNT: Final = rf"(?P<count>\d{{1,3}}|{'|'.join(_SMALL)})"
_ROUGHLY: Final = "".join(rf"(?<!\b{word} )" for word in "or to about around some almost nearly over than".split())  # noqa: SIM905
_DAYS_AGO: Final = re.compile(rf"{_ROUGHLY}(?<![\d.,/-])\b{_COUNT} days? ago\b", re.IGNORECASE)
_IN_DAYS: Final = re.compile(rf"\bin {_COUNT} days\b(?:['’]? time\b)?", re.IGNORECASE)
_DENSE_DAYS: Final = re.compile(
    rf"(?<![月约約近\d.、,~-])(?<![{_DIGITS}十两兩百千数數几幾第])(?P<count>{NUMERAL})(?:天|日)(?:之|以)?(?P<side>前"
    rf"|[后後])(?![半天日后後])",
)

_LAST_WEEKDAY: Final = re.compile(rf"\b(?:last|this past|past) (?P<day>{_WEEKDAY})\b(?! week)", re.IGNORECASE)
_THIS_WEEKDAY: Final = re.compile(rf"\b(?:this(?: coming)?|coming) (?P<day>{_WEEKDAY})\b", re.IGNORECASE)
_NEXT_WEEKDAY: Final = re.compile(rf"\bnext (?P<day>{_WEEKDAY})\b", re.IGNORECASE)
_ON_WEEKDAY: Final = re.compile(
    rf"\bon (?P<day>{_WEEKDAY})\b(?! (?:mornings|afternoons|evenings|nights|and\b|or\b))", re.IGNORECASE
)
_OF_WEEK: Final = re.compile(
    rf"\b(?P<day>{_WEEKDAY}) (?:of )?(?P<which>last|next|this) week\b|\b(?P<which2>last|next"
    rf"|this) week,? (?:on )?(?P<day2>{_WEEKDAY})\b",
    re.IGNORECASE,
)
_WEEKDAY_SIGNS: Final = "一二三四五六月火水木金土"
_DENSE_WEEK: Final = re.compile(
    r"(?P<which>[上下这這本])(?:个|個)?(?:周|週|星期|礼拜|禮拜)"
    # Not "all week long", "together", "for three days": 上周一直, 上周一起, 上周三天.
    r"(?P<day>[二三四五六](?![个個天次年十位人])|一(?![直起样樣些共定般次个個天年]))"
    r"|(?P<which2>先週|今週|来週)の?(?P<day2>[月火水木金土])曜"
)
_WEEK_SHIFT: Final = {"last": -7, "this": 0, "next": 7} | {
    "上": -7,
    "这": 0,
    "這": 0,
    "本": 0,
    "下": 7,
    "先週": -7,
    "今週": 0,
    "来週": 7,
}

_HABIT: Final = re.compile(
    r"\b(?:every|each|always|usually|often|sometimes|mostly|never|weekly|yearly|annually)\b|毎|每|总是|總是"
    r"|いつも",
    re.IGNORECASE,
)
_RECURS: Final = re.compile(
    r"\b(?:born|birth|birthdays?|anniversary|anniversaries|name day)\b|生日|出生|诞辰|誕辰|誕生日|生まれ|周年|記念日"
    r"|纪念日|紀念日",
    re.IGNORECASE,
)
_RESCHEDULED: Final = re.compile(
    r"\b(?:postponed|rescheduled|moved|shifted|changed|delayed|brought forward)\b|推迟|推遲|延期|改[到成为為]|変更|変わ",
    re.IGNORECASE,
)
_LAST_YEAR: Final = re.compile(r"\blast year\b", re.IGNORECASE)
_NEXT_YEAR: Final = re.compile(r"\bnext year\b", re.IGNORECASE)

_PAST: Final = re.compile(
    r"\b(?:was|were|had|did|didn['’]t|went|came|got|gave|took|left|met|saw|bought|sold|began|broke|brought|built"
    r"|caught|chose|drove"
    r"|fell|felt|found|flew|forgot|grew|heard|held|kept|knew|lost|made|paid|ran|said|sent|slept|spoke|spent|stood|swam"
    r"|taught|told"
    r"|thought|won|wore|wrote|ago|since|(?!need|feed|seed|speed|indeed|hundred|schedul|plann|book|interest|excit|marri"
    r"|suppos|us)"
    r"\w{2,}ed)\b|了|曾|已[经經]|(?:まし|でし|だっ|[いえきしちっびりれん])[ただ](?=$|[\s。、,.!！」]|が|けど|ので|から|よ|の)",
    re.IGNORECASE,
)
_FUTURE: Final = re.compile(
    r"\b(?:will|shall|won['’]t|going to|gonna|plans?|planning|planned|wants?|hopes?|intends?|expects?|due|deadline"
    r"|scheduled|booked"
    r"|upcoming|starts?|begins?|ends?|opens?|closes?|leaves?|arrives?|departs?|flies|fly|goes|go|turns?|comes?|meets?"
    r"|launch(?:es)?"
    r"|ships?|moves?|lives?|is|are|am)\b|['’](?:ll|m|re)\b|[将將]|(?<![机機社委晚宴])[会會](?![议議员員社计計场場])"
    r"|(?<![重主需必])要(?!求)|打算|计划|計劃|准备|準備|即将|预定|予定|つもり"
    r"|(?:ます|る|く|ぐ|す|つ|ぬ|ぶ|む|う)(?=$|[\s。、,.!！」]|が|けど|ので|から|よ)",
    re.IGNORECASE,
)
_CLAUSE_END: Final = re.compile(r"[,;:()\n,、。;:!?！？]|[.!?](?=\s|$)")
_SENTENCE_END: Final = re.compile(r"[\n。!?！？]|[.!?](?=\s|$)")
_RANGE: Final = re.compile(r"\s*(?:to|until|till|through|thru|-|–|—|~|〜|至|到|から|より)\s*(?:on\s+)?(?:the\s+)?", re.IGNORECASE)

CLEARLY_NEARER: Final = 60
"""Days by which one reading of a date without a year and without a tense must be nearer than the other."""


class _Mention(msgspec.Struct, frozen=True):
    """A day as it is named at a place; ``day`` is ``None`` where the words do not settle which day it is."""

    start: int
    end: int
    day: date | None


def find_event_day(text: str, said_on: date | None) -> date | None:
    """Return the one day a text names, the first one of a range; ``None`` when it names none, several, or one in doubt.

    Without ``said_on`` only complete dates count.
    """
    mentions = sorted(_mentions(text, said_on), key=lambda mention: mention.start)
    plain = unicodedata.normalize("NFKC", text)
    days = {mention.day for mention in mentions[:1]}
    for before, mention in pairwise(mentions):
        # "from the 4th to the 9th" is a range, unless it is the day that was changed.
        if _RESCHEDULED.search(plain) or not _RANGE.fullmatch(plain[before.end : mention.start]):
            days.add(mention.day)
    return days.pop() if len(days) == 1 else None


def find_iso_days(text: str) -> list[date]:
    """Return the real days that a text writes as ``YYYY-MM-DD``, in order, each once."""
    days = [_day(int(year), int(month), int(day)) for year, month, day in _ISO.findall(text)]
    return list(dict.fromkeys(day for day in days if day is not None))


def _mentions(text: str, said_on: date | None) -> list[_Mention]:
    reader = _Reader(unicodedata.normalize("NFKC", text), said_on)
    reader.take(_BESIDE_A_DATE, lambda _: ())  # the weekday says nothing that the date does not
    for pattern in (_ISO, _SLASHED):
        reader.take(pattern, lambda found: (_day(int(found[1]), int(found[2]), int(found[3])),))
    reader.take(_DENSE, reader.dense_date)
    reader.take(_DAY_FIRST, reader.named_month)
    reader.take(_MONTH_FIRST, reader.named_month)
    if said_on is not None:
        reader.take(_DAYS_AGO, lambda found: (reader.shifted(-_count(found["count"])),))
        reader.take(_IN_DAYS, reader.in_days)
        reader.take(_DENSE_DAYS, reader.dense_days)
        for pattern, days in _RELATIVE:
            day = reader.shifted(days)
            reader.take(pattern, partial(_same, day))
        reader.take(_OF_WEEK, lambda found: (reader.of_week(found, _WEEKDAYS[:-1]),))
        reader.take(_DENSE_WEEK, lambda found: (reader.of_week(found, _WEEKDAY_SIGNS),))
        reader.take(_LAST_WEEKDAY, lambda found: (reader.weekday(found["day"], "past", whole_week=True),))
        reader.take(_NEXT_WEEKDAY, partial(_same, None))  # some mean this week's, some the one after
        reader.take(_THIS_WEEKDAY, reader.this_weekday)
        reader.take(_ON_WEEKDAY, reader.on_weekday)
    return reader.mentions


class _Reader:
    """Reads one text; what was read is blanked, so that "day before yesterday" is not read as "yesterday" as well."""

    def __init__(self, text: str, said_on: date | None) -> None:
        self._text = text
        self._rest = text
        self._said_on = said_on
        self.mentions: list[_Mention] = []

    def take(self, pattern: re.Pattern[str], read: Callable[[re.Match[str]], tuple[date | None, ...]]) -> None:
        """Add what ``read`` makes of each match: no day at all, or one, known or not."""
        for found in list(pattern.finditer(self._rest)):
            self.mentions.extend(_Mention(found.start(), found.end(), day) for day in read(found))
            self._rest = self._rest[: found.start()] + " " * len(found.group()) + self._rest[found.end() :]

    def shifted(self, days: int) -> date | None:
        if self._said_on is None:
            return None
        try:
            return self._said_on + timedelta(days=days)
        except OverflowError:
            return None

    def named_month(self, found: re.Match[str]) -> tuple[date | None, ...]:
        word = found["month"]
        if word.lower() in _LOOKS_LIKE_A_VERB and word[0].islower():
            return ()
        if found["year"] is None and re.search(r"\bin\s+$", self._text[: found.start()], re.IGNORECASE):
            return ()  # "in May 12 people came"
        first = found.groupdict().get("start") or found["day"]
        month = next(number for number, name in enumerate(_MONTHS, 1) if name.startswith(word.lower()[:3]))
        return (self._date(found, int(found["year"]) if found["year"] else None, month, int(first)),)

    def dense_date(self, found: re.Match[str]) -> tuple[date | None, ...]:
        month, day = read_numeral(found["month"]), read_numeral(found["day"])
        if month is None or day is None:
            return ()
        if found["era"]:
            return (None,)
        year = _year(found["year"])
        if found["which"] and self._said_on is not None:
            year = self._said_on.year + _WHICH_YEAR[found["which"]]
        return (self._date(found, year, month, day),)

    def in_days(self, found: re.Match[str]) -> tuple[date | None, ...]:
        # "in 3 days we had it done" is how long it took.
        return () if self._tense(found) == "past" else (self.shifted(_count(found["count"])),)

    def dense_days(self, found: re.Match[str]) -> tuple[date | None, ...]:
        count = read_numeral(found["count"])
        if count is None:
            return ()
        if found["side"] == "前":
            return (self.shifted(-count),)
        # "three days later he left" counts from another event.
        return () if self._tense(found) == "past" else (self.shifted(count),)

    def of_week(self, found: re.Match[str], names: Sequence[str]) -> date | None:
        # On Sunday some weeks begin and others end.
        name = (found["day"] or found["day2"]).lower()
        which = (found["which"] or found["which2"]).lower()
        if name not in names or self._said_on is None:
            return None
        return self.shifted(list(names).index(name) % 6 + _WEEK_SHIFT[which] - self._said_on.weekday())

    def weekday(self, name: str, side: Tense, *, whole_week: bool = False) -> date | None:
        """Return the nearest such day before or after; on the same weekday it may be today, unless it is a whole week away."""
        if self._said_on is None:
            return None
        distance = (_WEEKDAYS.index(name.lower()) - self._said_on.weekday()) % 7
        if distance == 0 and not whole_week:
            return None
        return self.shifted(distance if side == "future" and distance else distance - 7)

    def this_weekday(self, found: re.Match[str]) -> tuple[date | None, ...]:
        return (None if self._tense(found) == "past" else self.weekday(found["day"], "future"),)

    def on_weekday(self, found: re.Match[str]) -> tuple[date | None, ...]:
        if _HABIT.search(self._sentence(found)):
            return ()
        tense = self._tense(found)
        return (None if tense is None else self.weekday(found["day"], tense),)

    def _date(self, found: re.Match[str], year: int | None, month: int, day: int) -> date | None:
        if year:
            return _day(year, month, day)
        complete = [
            mention.day for mention in self.mentions if mention.day and (mention.day.month, mention.day.day) == (month, day)
        ]
        if complete:
            return complete[0]
        clause = self._clause(found)
        if self._said_on is None or _HABIT.search(clause) or _RECURS.search(clause):
            return None
        for pattern, shift in ((_LAST_YEAR, -1), (_NEXT_YEAR, 1)):
            if pattern.search(clause):
                return _day(self._said_on.year + shift, month, day)
        return _nearest(month, day, self._said_on, self._tense(found))

    def _tense(self, found: re.Match[str]) -> Tense | None:
        return _tense(self._clause(found)) or _tense(self._sentence(found))

    def _clause(self, found: re.Match[str]) -> str:
        return self._around(found, _CLAUSE_END)

    def _sentence(self, found: re.Match[str]) -> str:
        return self._around(found, _SENTENCE_END)

    def _around(self, found: re.Match[str], end: re.Pattern[str]) -> str:
        before = [mark.end() for mark in end.finditer(self._text, 0, found.start())]
        after = end.search(self._text, found.end())
        return self._text[before[-1] if before else 0 : after.start() if after else len(self._text)]


def _same(day: date | None, _: re.Match[str]) -> tuple[date | None, ...]:
    return (day,)


def _tense(text: str) -> Tense | None:
    past, future = _PAST.search(text) is not None, _FUTURE.search(text) is not None
    if past == future:
        return None
    return "past" if past else "future"


def _nearest(month: int, day: int, said_on: date, tense: Tense | None) -> date | None:
    real = list(_years(month, day, said_on.year))
    before = max((each for each in real if each <= said_on), default=None)
    after = min((each for each in real if each >= said_on), default=None)
    if tense is not None:
        return before if tense == "past" else after
    if before is None or after is None or before == after:
        return before or after
    since, until = (said_on - before).days, (after - said_on).days
    if abs(since - until) < CLEARLY_NEARER:
        return None
    return before if since < until else after


def _years(month: int, day: int, year: int) -> Iterator[date]:
    for offset in (-1, 0, 1):
        if (found := _day(year + offset, month, day)) is not None:
            yield found


def _count(word: str) -> int:
    return int(word) if word.isdigit() else _SMALL[word.lower()]


def read_numeral(text: str) -> int | None:
    """Read a number up to 99, in figures or Chinese; ``None`` for what is none, such as the holiday 五一."""
    if text.isdigit():
        return int(text)
    plain = text.translate(str.maketrans({"两": "二", "兩": "二", "廿": "二十", "卅": "三十"}))
    found = re.fullmatch(rf"(?:([{_DIGITS}])?(十))?([{_DIGITS}])?", plain)
    if found is None:
        return None
    tens = (_DIGITS.index(found[1]) + 1 if found[1] else 1) if found[2] else 0
    return tens * 10 + (_DIGITS.index(found[3]) + 1 if found[3] else 0)


def _year(text: str | None) -> int | None:
    if text is None:
        return None
    return int("".join(each if each.isdecimal() else str(_DIGITS.find(each) + 1) for each in text))


def _day(year: int, month: int, day: int) -> date | None:
    try:
        return date(year, month, day)
    except ValueError:
        return None
