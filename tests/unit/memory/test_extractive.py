"""What is kept of a person's sentences, and what is said without being meant."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brain.memory.extractive import extract_quotes
from brain.memory.regions import sources_of
from shared_protocol.instants import Instant
from shared_protocol.messages import TextPart, UserMessage


def kept(*texts: str, flavour="conversation") -> list[str]:
    messages = [UserMessage((TextPart(text),), Instant("2026-03-02T09:00:00Z")) for text in texts]
    return [item.text for item in extract_quotes(sources_of(messages), flavour).items]


@pytest.mark.parametrize(
    "text",
    [
        "I work as an actuary at Meridian Mutual, badge 48213.",
        "My knee hurts after 25 kilometres though, the left one.",
        "We do not really like mushrooms at home.",
        "When I was a child I lived in Graz.",
        "What I like most is rye bread with butter.",
        "The return flight is on June 5.",
        "My class starts at nine on Mondays.",
        "Given the low budget we chose oak for the worktop.",
        "For my game I use Godot 4.2.",
        "我家的猫叫豆豆,今年三岁,对鸡肉过敏。",
        "別忘了这件事对我很重要,我住在成都。",
        "主治医は大濠クリニックの森先生です。",
        "家賃の内訳は家賃が七万円です。",
    ],
)
def test_what_is_meant_is_kept_as_it_stands(text):
    assert kept(text) == [text]


@pytest.mark.parametrize(
    "text",
    [
        # Suppositions and fiction, with what hangs on them.
        "Imagine she could talk. She would ask for Brie from Paris all day.",
        "If I won the lottery I would buy a yacht. It would be called Marlene.",
        "Suppose our server ran on Mars. The ping to Earth is 20 minutes.",
        "In the novel the detective lives on a houseboat. He drinks absinthe and owns 3 cats.",
        "I dreamt that I was in Lima. There were 40 llamas.",
        "I wish I were living in Hawaii with ten cats.",
        "If I lived in Paris, I could see the Louvre daily.",
        "Say I had won the 2024 lottery, then I'd have bought Malta.",
        "Assume the server has 64 GB of RAM. It runs in Oslo.",
        "The heroine of it, Dora, owns a vineyard in Tuscany.",
        "我昨晚梦到自己住在火星上。",
        "もしも宝くじが当たったら、島を買います。",
        "如果我是猫就好了。每天睡十个小时。",
        "小说里的侦探住在船上。他有三只猫。",
        "もし私が若かったら、北海道に住みたかったです。",
        "小説の中の探偵は船に住んでいます。猫が三匹います。",
        # A role is played until it is given up.
        "Let's role-play: I am a knight. My castle is in Bordeaux.",
        "Let's pretend I'm a pirate. Call me Captain Hook.",
        # Jokes, told by their laughter or taken back at once or in the next sentence.
        "April fools: I am the king of Norway, just kidding.",
        "Haha, and my other car is a spaceship from 2050.",
        "我儿子说他是恐龙,哈哈。",
        "I bought Buckingham Palace. It has 775 rooms. Just kidding!",
        "我中了五百万大奖。开玩笑的。",
        "私は宇宙飛行士です。冗談です。",
        # Words of others.
        "> I live in Oslo and have two dogs.",
        '"I live in Oslo and have two dogs."',
        "「私はオスロに住んでいます。」",
        "Translate this into French: I live in Oslo. My dog is called Rex.",
        "Can you proofread my letter:\nDear Sir,\nI live at 5 Elm Street.\nMy phone number is 7731.",
        "Here is the log of my service:\nworker 3 has 40 jobs\nuser bob has 12 tokens",
        "Question 3: A train leaves Chicago at 9 am with 200 passengers.",
        "user: I like jazz and own 40 records",
        "This is what my character would say: I hate the king.",
        "请翻译这句话:我住在奥斯陆,有两只狗。",
        "次の文を英語に訳してください:私はオスロに住んでいます。",
        # Code, in fences or not.
        "def read(): return bus.read(0x44)  # this is just an example",
        "2026-03-01 12:00:03 ERROR user bob has no token",
        "```\nI am user 7 and my shell is zsh\n",
        # Not to be remembered.
        "Please don't remember this: my locker code is 4417.",
        "My locker code is 4417. Off the record, of course.",
        "我的密码是4417,不要记下来。",
        "暗証番号は4417です。覚えないでください。",
        # Questions without their mark.
        "do you think I should move to Rome in May",
        "what is my passport word",
    ],
)
def test_what_is_not_meant_is_left_out(text):
    assert kept(text) == []


def test_what_follows_in_a_story_is_left_out_but_not_that_it_is_written():
    assert kept("I am writing a screenplay. Dora owns a vineyard in Tuscany.") == ["I am writing a screenplay."]
    assert kept("小説を書いています。健太は大阪に住む探偵です。") == ["小説を書いています。"]


def test_the_person_is_believed_again_after_a_supposition():
    assert kept("Imagine she could talk. She would ask for cheese. My sister Ada works at Northwind.") == [
        "My sister Ada works at Northwind."
    ]
    assert kept("Let's role-play: I am a knight.", "My castle is in Bordeaux.", "Stop the role-play. I live in Graz.") == [
        "I live in Graz."
    ]


@pytest.mark.parametrize("retraction", ["Just kidding!", "Don't remember that.", "开玩笑的。", "冗談です。"])
def test_a_retraction_takes_back_the_message_before(retraction):
    assert kept("I live in Graz.", "I won the Nobel prize in 2020.", retraction) == ["I live in Graz."]


def test_a_quotation_is_not_cut_into_statements_of_the_person():
    text = 'My boss said: "I live in Oslo. I hate Graz." and left.'
    assert kept(text) == [text]


def test_a_title_does_not_end_a_sentence():
    text = "The work starts on April 7 and they need the key from Mrs. Brandt next door."
    assert kept(text) == [text]


def test_neighbours_stay_together_unless_they_name_different_days():
    assert kept("We adopted a greyhound on March 1. Her name is Biscuit.") == [
        "We adopted a greyhound on March 1. Her name is Biscuit."
    ]
    assert kept("I moved yesterday. The party was on February 14.") == ["I moved yesterday.", "The party was on February 14."]


def test_a_submission_is_taken_as_it_is():
    text = "Translate: the contract with Orlanda runs until 2027. > The penalty is 400 euros."
    assert kept(text, flavour="digest") == [text]


@given(st.text(max_size=300))
def test_what_is_kept_stands_in_the_message(text):
    for passage in kept(text):
        assert passage in text
