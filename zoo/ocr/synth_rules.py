"""Texts by rule, of our own making: words that can be spoken, numbers, dates, amounts, and frequent characters."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from zoo.ocr.synth_settings import Language

# In place of a dictionary: syllables that give words which can be spoken.
ONSETS = [
    "b",
    "c",
    "d",
    "f",
    "g",
    "h",
    "j",
    "k",
    "l",
    "m",
    "n",
    "p",
    "r",
    "s",
    "t",
    "v",
    "w",
    "st",
    "tr",
    "pl",
    "gr",
    "br",
    "sh",
    "ch",
    "qu",
    "fl",
]
RIMES = [
    "a",
    "e",
    "i",
    "o",
    "u",
    "ai",
    "ea",
    "oo",
    "ou",
    "an",
    "en",
    "in",
    "on",
    "un",
    "ar",
    "er",
    "or",
    "al",
    "el",
    "il",
    "as",
    "is",
    "us",
    "at",
    "et",
    "it",
    "y",
]
MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]
UNITS = ["kg", "g", "ml", "L", "pcs", "box", "m", "cm", "mm", "h", "min", "%", "km"]
DIGITS = "0123456789"
CODE_SIGNS = "ABCDEFGHJKLMNPQRSTUVWXYZ" + DIGITS * 2  # no O and I, which nobody tells from 0 and 1
CAPITAL_DIGITS = "零壹贰叁肆伍陆柒捌玖"
CAPITAL_PLACES = ("", "拾", "佰", "仟", "万")
CHINESE_UNITS = ["元", "个", "件", "箱", "公斤", "米", "次", "人", "天", "年", "吨", "号", "楼", "页"]


def made(random: np.random.Generator, lang: Language, length: int) -> str:
    """A text by rule, of about `length` characters at most."""
    english = lang == "en" or (lang == "mixed" and random.random() < 0.5)
    rules = (*(_phrase,) * 6, *LATIN) if english else (*(_chinese,) * 8, *CHINESE)
    rule = pick(random, rules)
    if rule is _chinese:
        return _chinese(random, length)
    text = rule(random)
    while rule is _phrase and len(text) < length:
        text = f"{text} {_phrase(random)}"
    return text


def pick(random: np.random.Generator, rules: tuple[Callable[..., str], ...]) -> Callable[..., str]:
    return rules[int(random.integers(len(rules)))]


def _of(random: np.random.Generator, choices: str | list[str] | tuple[str, ...]) -> str:
    return choices[int(random.integers(len(choices)))]


def _phrase(random: np.random.Generator) -> str:
    """A word of two or three syllables, in one of the usual cases, with a sign after it at times."""
    word = "".join(_of(random, ONSETS) + _of(random, RIMES) for _ in range(int(random.integers(1, 4))))
    word = (word, word, word.capitalize(), word.upper())[int(random.integers(4))]
    return word + (_of(random, ".,:;!?-&/)'") if random.random() < 0.12 else "")


def _amount(random: np.random.Generator) -> str:
    value = 10 ** random.uniform(0, 6)
    return _of(random, ("", "$", "€", "£", "¥", "-")) + (f"{value:,.2f}" if random.random() < 0.7 else f"{value:.0f}")


def _date(random: np.random.Generator) -> str:
    year, month, day = int(random.integers(1970, 2040)), int(random.integers(1, 13)), int(random.integers(1, 29))
    styles = (f"{year}-{month:02}-{day:02}", f"{day:02}/{month:02}/{year}", f"{MONTHS[month - 1][:3]} {day}, {year}",
              f"{day} {MONTHS[month - 1]} {year}", f"{year}.{month:02}.{day:02}")  # fmt: skip
    return _of(random, styles)


def _time(random: np.random.Generator) -> str:
    return f"{int(random.integers(24)):02}:{int(random.integers(60)):02}:{int(random.integers(60)):02}"[: _size(random)]


def _size(random: np.random.Generator) -> int:
    return 5 if random.random() < 0.5 else 8


def _code(random: np.random.Generator) -> str:
    """A number as on tickets and parts: groups of capitals and digits."""
    groups = ("".join(_of(random, CODE_SIGNS) for _ in range(int(random.integers(2, 6))))
              for _ in range(int(random.integers(1, 4))))  # fmt: skip
    return _of(random, ("-", "", "/")).join(groups)


def _digits(random: np.random.Generator) -> str:
    return "".join(_of(random, DIGITS) for _ in range(int(random.integers(1, 12))))


def _measure(random: np.random.Generator) -> str:
    return f"{random.uniform(0, 500):.{int(random.integers(3))}f} {_of(random, UNITS)}"


def _chinese(random: np.random.Generator, length: int) -> str:
    """Characters of the first level of GB 2312, which are the 3,755 most frequent, with a sign between at times."""
    found: list[str] = []
    for at in range(max(length, 1)):
        if 0 < at < length - 1 and random.random() < 0.06 and found[-1] not in "，。、；：":
            found.append(_of(random, "，。、；："))
            continue
        row, cell = divmod(int(random.integers(3755)), 94)
        found.append(bytes([0xB0 + row, 0xA1 + cell]).decode("gb2312"))
    return "".join(found)


def _chinese_date(random: np.random.Generator) -> str:
    return f"{int(random.integers(1970, 2040))}年{int(random.integers(1, 13))}月{int(random.integers(1, 29))}日"


def _chinese_measure(random: np.random.Generator) -> str:
    return f"{int(10 ** random.uniform(0, 5))}{_of(random, CHINESE_UNITS)}"


def _chinese_amount(random: np.random.Generator) -> str:
    """With the wide yen sign, which is the one that Chinese fonts and character lists have."""
    return f"￥{10 ** random.uniform(0, 5):.2f}"


def _capital_amount(random: np.random.Generator) -> str:
    """An amount in the capital numerals of cheques: 叁仟零伍元整."""
    number = str(int(10 ** random.uniform(0, 5)))
    text = ""
    for place, digit in zip(range(len(number) - 1, -1, -1), number, strict=True):
        text += CAPITAL_DIGITS[int(digit)] + (CAPITAL_PLACES[place] if digit != "0" else "")
    text = re.sub("零+", "零", text).rstrip("零")
    return text + "元整"


LATIN: tuple[Callable[..., str], ...] = (_amount, _date, _time, _code, _digits, _measure)
CHINESE: tuple[Callable[..., str], ...] = (_chinese_date, _chinese_measure, _capital_amount, _chinese_amount, _digits)
NUMBERS: tuple[Callable[..., str], ...] = (_amount, _amount, _date, _time, _digits, _code)
