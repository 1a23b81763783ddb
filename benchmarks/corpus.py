"""A corpus of conversations, the same on every machine: sessions of four agents, drawn from a seeded generator.

Two sessions in five are spawned by another one: most by the latest of the sessions that spawn many, so that trees of
about twenty sessions arise, some by the first session of all, whose tree grows with the corpus.

Words follow Zipf's law: some English ones, some with accents, and many made of syllables. Between them stand
identifiers, paths and numbers. One message in twenty is in Chinese, Japanese or Thai, without spaces between words.
Assistants call tools, whose output stands between the messages.
"""

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import accumulate

AGENTS = ("main", "research", "coder", "support")
SESSION_LENGTH = 50
"""Messages in a session, in the middle; lengths spread from 2 to eight times as many."""

_SPAWNING = 40
"""One session in so many is one that spawns many."""
_FIRST_SPAWNS = 0.02
"""The share of sessions that the first one spawned."""
_VOCABULARY = 40_000
_ACCENTED_FROM = 600
"""The rank of the first word with an accent."""
_START = datetime(2025, 1, 1, tzinfo=UTC)
_ENGLISH = (
    "the to of and a in is it you that for on with this be we can not as are if at or have from but by was do will so"
    " all there use one when an what file which just then now need would run get error test how out add set up let make"
    " server code only more time new call after data first here should same see change key value line user name list"
    " check build find path update return database index session message search token window start query result version"
    " deploy review table branch commit folder config request response timeout cache thread memory worker client schema"
    " column package module import release network socket stream backup restore ticket invoice meeting ferry island"
    " weather kitchen garden winter summer morning evening doctor teacher bicycle mountain library train station"
)
_ACCENTED = "café résumé naïve Zürich São façade jalapeño crème über señal naïveté coördinate Ångström Łódź smørrebrød"
_ONSETS = ("b", "d", "f", "g", "k", "l", "m", "n", "p", "r", "s", "t", "v", "z", "br", "tr", "st", "pl")
_SYLLABLES = [onset + vowel + end for onset in _ONSETS for vowel in "aeiou" for end in ("", "n", "r")]
_CHINESE = (
    "我们 需要 检查 服务器 日志 数据库 评审 会议 今天 明天 问题 代码 测试 部署 配置 文件 更新 版本 用户 系统"
    " 网络 请求 错误 修复 功能 设计 文档 项目 计划 时间 完成 开始 结果 分析 性能 内存 缓存 索引 查询 消息 船票"
    " 天气 花园 图书馆 山路 冬天 早上 老师 医生 火车"
)
_JAPANESE = (
    "会議 設定 変更 確認 サーバー テスト データ 検索 結果 お願いします について ください 今日 明日 を に は が の"
)
_THAI = "ประชุม ตรวจสอบ เซิร์ฟเวอร์ ข้อมูล ระบบ วันนี้ พรุ่งนี้ ทดสอบ แก้ไข ปัญหา ผู้ใช้ ไฟล์ ค้นหา"


@dataclass(frozen=True, slots=True)
class Said:
    """A message of the corpus. A tool's output and an assistant's call are parts, the rest is `text`."""

    message_id: str
    role: str
    text: str
    created_at: datetime
    call: dict[str, str] | None = None
    output: dict[str, str] | None = None

    @property
    def text_bytes(self) -> int:
        """The bytes of all that it says, in UTF-8: its text, the arguments of its call, the output of its tool."""
        call = self.call["arguments"] if self.call else ""
        output = self.output["text"] if self.output else ""
        return len(self.text.encode()) + len(call.encode()) + len(output.encode())


@dataclass(frozen=True, slots=True)
class Conversation:
    """A session of the corpus."""

    session_key: str
    agent_id: str
    messages: list[Said]
    spawned_by: str | None = None


class Corpus:
    """Conversations from a seed; each call goes on where the last one stopped.

    `spoken` counts the messages of users and assistants that say something, `found_in` those that hold a word.
    """

    def __init__(self, seed: int = 1) -> None:
        self._random = random.Random(seed)
        self._sessions = 0
        self._said = 0
        self._first: str | None = None
        self._spawning: str | None = None
        self._latest: list[str] = []
        words = _ENGLISH.split()
        syllables = random.Random(seed + 1)
        known = set(words)
        while len(words) < _VOCABULARY:
            word = "".join(syllables.choices(_SYLLABLES, k=syllables.choice((2, 2, 3, 3, 4))))
            if word not in known:
                known.add(word)
                words.append(word)
            if len(words) == _ACCENTED_FROM:
                words += _ACCENTED.split()
        self._words = words
        self.spoken = 0
        self.found_in: Counter[str] = Counter()
        self._weights = list(accumulate(1 / rank for rank in range(3, len(words) + 3)))
        self._spaceless = [self._pool(text) for text in (_CHINESE, _CHINESE, _JAPANESE, _THAI)]

    def words_in(self, messages: float, count: int, least: int = 3) -> list[str]:
        """Words of Latin letters, at least so long, that about so many of the spoken messages hold."""
        fit = [word for word in self._words if len(word) >= least and word.isascii()]
        return sorted(fit, key=lambda word: abs(self.found_in[word] - messages))[:count]

    @staticmethod
    def chinese(count: int) -> list[str]:
        """Two-character words, the most common first."""
        return [word for word in _CHINESE.split() if len(word) == 2][:count]

    @staticmethod
    def _pool(text: str) -> tuple[list[str], list[float]]:
        words = text.split()
        return words, list(accumulate(1 / rank for rank in range(3, len(words) + 3)))

    def conversations(self, messages: int) -> Iterator[Conversation]:
        """Sessions with so many messages in all."""
        while messages > 0:
            length = min(messages, int(SESSION_LENGTH * min(self._random.lognormvariate(-0.15, 0.8), 8)) + 2)
            messages -= length
            spawned_by = self._parent()
            one = self.conversation(length, spawned_by)
            self._first = self._first or one.session_key
            if self._sessions % _SPAWNING == 1:
                self._spawning = one.session_key
            self._latest = [*self._latest[-19:], one.session_key]
            yield one

    def conversation(self, length: int, spawned_by: str | None = None) -> Conversation:
        """One session of so many messages."""
        self._sessions += 1
        agent = self._random.choices(AGENTS, (8, 4, 2, 1))[0]
        said: list[Said] = []
        turns = self.turns()
        while len(said) < length:
            said.append(next(turns))
        kind = "bench" if spawned_by is None else "subagent"
        return Conversation(f"agent:{agent}:{kind}:{self._sessions}", agent, said, spawned_by)

    def _parent(self) -> str | None:
        chance = self._random.random()
        if chance < _FIRST_SPAWNS:
            return self._first
        if chance < 0.35 and self._sessions % _SPAWNING:
            return self._spawning
        return self._random.choice(self._latest) if self._latest and chance > 0.95 else None

    def turns(self) -> Iterator[Said]:
        """Messages that follow each other, without end: a question, some tool calls, an answer."""
        while True:
            yield self._next("user", self._prose(2.6, 0.9, spoken=True))
            for _ in range(self._random.choice((0, 0, 1, 2))):
                text = self._prose(2.2, 0.6, spoken=True) if self._random.random() < 0.7 else ""
                arguments = f'{{"path": "{self._path()}"}}'
                call_id = f"call_{self._said}"
                call = {"type": "tool_call", "name": "read_file", "arguments": arguments, "call_id": call_id}
                yield self._next("assistant", text, call=call)
                output = {"type": "tool_result", "text": self._prose(4.4, 1.0), "call_id": call_id}
                yield self._next("tool", "", output=output)
            yield self._next("assistant", self._prose(4.0, 0.9, spoken=True))

    def _next(
        self, role: str, text: str, call: dict[str, str] | None = None, output: dict[str, str] | None = None
    ) -> Said:
        self._said += 1
        # Shaped like generated ids: time first, so that neighbours are near each other, then something random.
        message_id = f"{self._said:012x}{self._random.getrandbits(40):010x}"
        return Said(message_id, role, text, _START + timedelta(seconds=self._said * 7), call, output)

    def _prose(self, mean: float, spread: float, *, spoken: bool = False) -> str:
        length = min(int(self._random.lognormvariate(mean, spread)) + 2, 800)
        spaceless = self._random.random() < 0.05
        pool, weights = self._random.choice(self._spaceless) if spaceless else (self._words, self._weights)
        words = self._random.choices(pool, cum_weights=weights, k=length)
        if spoken:
            self.spoken += 1
            self.found_in.update(set(words))
        if spaceless:
            return "".join(words) + "。"
        for _ in range(length // 15 + 1):
            words[self._random.randrange(length)] = self._special()
        text = " ".join(words)
        return text[0].upper() + text[1:] + self._random.choice(".?!")

    def _special(self) -> str:
        kind = self._random.randrange(5)
        if kind == 0:
            return self._path()
        if kind == 1:
            return f"{self._word()}_{self._word()}_{self._random.randrange(100)}"
        if kind == 2:
            return f"{self._random.getrandbits(28):07x}"
        if kind == 3:
            return f"{self._word().title()}{self._word().title()}"
        return f"{self._random.randrange(1000)}.{self._random.randrange(100)}"

    def _path(self) -> str:
        folders = "/".join(self._word() for _ in range(self._random.randint(1, 3)))
        return f"{folders}/{self._word()}.{self._random.choice(('py', 'md', 'json', 'ts'))}"

    def _word(self) -> str:
        return self._words[min(int(self._random.paretovariate(0.6)) + 40, len(self._words) - 1)]
