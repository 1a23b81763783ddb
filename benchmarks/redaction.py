"""The default redactor on the labelled corpus and on large texts: precision and recall of each kind, and speed.

    python benchmarks/redaction.py [--size 1000000] [--text FILE ...]

Recall counts secrets masked whole. Precision counts characters: of all that is masked in a kind's samples, how many
belong to a secret. Times are of the processor; a text is given once as a whole and once in pieces of 2,000 characters,
as long as a long message. The hostile texts repeat what rules begin with, at the size and at half of it: linear is
twice the time.
"""

import argparse
import base64
import inspect
import json
import random
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from backscroll.domain.redaction import Span
from backscroll.infrastructure import secret_patterns, secret_values
from backscroll.infrastructure.redaction import PatternRedactor

CORPUS = Path(__file__).parent.parent / "tests" / "corpus"
REDACTOR = PatternRedactor(remember=0)

PROSE = (
    "We met at the harbour on Tuesday and talked about the ferry to Naxos. Anna had the tickets, Ben forgot his keys "
    "again, and nobody wanted to pass on the soup. The token gesture came from the cook: 12 slices of lemon, free.\n"
)
UNITS = (
    *("a", "A", "M", "1", " ", "-", "_", "/", "\\", "\\\\n", '"', "'", "é", "密", "\ud800"),
    *("-----BEGIN ", "-----BEGIN PRIVATE KEY-----", "-----BEGIN PRIVATE KEY-----`", "a\n-----END PRIVATE KEY-----"),
    *(
        "sk-",
        "sk-a",
        "sk-proj-",
        "xoxb-",
        "AKIA",
        "SG.aaaaaaaaaaaaaaaa.",
        "eyJ.",
        "eyJaaaaaaaaaa.",
        "12345678:AA",
        "dp.st.a",
    ),
    *("://", "://a:", "://a:b", "://a:@", "a://a:b/", "?sig=", "Q~", "-us1", "0123456789abcdef", "/webhooks/"),
    *(
        "password=",
        "password= ",
        "password=a ",
        "pwd=ab1 ",
        "password='",
        'password="a',
        "password is ",
        "password the ",
    ),
    *(
        '"password":"',
        '\\"password\\":\\"',
        "password:${",
        "password=a,",
        "password,",
        'password","value":"',
        "<password>a",
    ),
    *(
        "token=",
        "token ",
        "token:a1b2c3d4 ",
        "api_key=",
        "api_key=a1b2c3d4e5 ",
        "secret:",
        "key=",
        "密码：",
        "пароль: ",
    ),
    *(
        "Bearer ",
        "bearer+",
        "basic dXNlcjpw ",
        "authorization: ",
        "authorization=bearer ",
        "--password ",
        "--password '",
        " -u a:",
    ),
)


def samples() -> Iterator[tuple[str, str, list[Span]]]:
    """Kind, text and the places of the secrets."""
    for line in (CORPUS / "secrets.jsonl").read_text("utf-8").splitlines():
        entry = json.loads(line)
        text, spans = entry["text"], []
        for number, pieces in enumerate(entry["secrets"]):
            before, after = text.split(f"⟦{number}⟧")
            secret = "".join(pieces)
            spans.append((len(before), len(before) + len(secret)))
            text = before + secret + after
        yield entry["kind"], text, spans


def quality() -> None:
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for kind, text, secrets in samples():
        found = REDACTOR.secrets(text)
        for row in (counts[kind], counts["all kinds"]):
            row[0] += len(secrets)
            row[1] += sum(any(a <= s and e <= b for a, b in found) for s, e in secrets)
            row[2] += sum(b - a for a, b in found)
            row[3] += sum(max(0, min(b, e) - max(a, s)) for a, b in found for s, e in secrets)
    print("| kind | secrets | recall | precision |\n| --- | ---: | ---: | ---: |")
    for kind, (total, whole, masked, right) in sorted(
        counts.items(), key=lambda item: (item[0] == "all kinds", item[0])
    ):
        print(f"| {kind} | {total} | {whole / total:.3f} | {right / masked if masked else 1:.3f} |")
    texts = [
        "".join(json.loads(line)["text"]) for line in (CORPUS / "lookalikes.jsonl").read_text("utf-8").splitlines()
    ]
    print(f"\nlook-alikes: {len(texts)}, of them masked: {sum(bool(REDACTOR.secrets(text)) for text in texts)}\n")


def seconds(texts: Sequence[str]) -> float:
    start = time.process_time()
    for text in texts:
        REDACTOR.secrets(text)
    return time.process_time() - start


def filled(unit: str, size: int) -> str:
    return (unit * (size // len(unit) + 1))[:size]


def ordinary(size: int, files: Sequence[Path]) -> None:
    code = "".join(inspect.getsource(module) for module in (argparse, inspect, json, random, secret_values))
    picture = base64.b64encode(random.Random(1).randbytes(size)).decode()
    chat = json.dumps([{"role": "user", "text": PROSE, "id": f"{number:032x}"} for number in range(99)])
    texts = {"prose": PROSE, "code": code, "messages as JSON": chat, "base64": picture}
    texts |= {file.name: file.read_text("utf-8", "replace") for file in files}
    print("| ordinary text | MB/s whole | MB/s in pieces |\n| --- | ---: | ---: |")
    for name, text in texts.items():
        whole = filled(text, size)
        pieces = [whole[at : at + 2_000] for at in range(0, size, 2_000)]
        print(f"| {name} | {size / seconds([whole]) / 1e6:.1f} | {size / seconds(pieces) / 1e6:.1f} |")


def hostile(size: int) -> None:
    rows = []
    for unit in (*UNITS, *(rule.gate for rule in secret_patterns.RULES)):
        text = filled(unit, size)
        rows.append((seconds([text]), seconds([text[: size // 2]]), unit))
    pick = random.Random(2)
    parts = [
        "password",
        "=",
        ":",
        " ",
        '"',
        "sk-",
        "a1",
        "\\",
        "\n",
        "token",
        "is",
        "://",
        "@",
        "Bearer ",
        "eyJ",
        ".",
        "key",
        "${",
    ]
    for name, alphabet in (("any of them, mixed", parts), ("any ASCII", [chr(code) for code in range(32, 127)])):
        text = filled("".join(pick.choices(alphabet, k=size)), size)
        rows.append((seconds([text]), seconds([text[: size // 2]]), name))
    rows.sort(reverse=True)
    print(f"\n{len(rows)} hostile texts of {size:,} characters; the slowest:\n")
    print("| repeated | s | times the half |\n| --- | ---: | ---: |")
    for whole, half, unit in rows[:12]:
        print(f"| `{unit!r}` | {whole:.2f} | {whole / half if half else 1:.1f} |")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--size", type=int, default=1_000_000, help="characters of each large text")
    arguments.add_argument("--text", type=Path, nargs="*", default=[], help="further ordinary texts")
    given = arguments.parse_args()
    quality()
    ordinary(given.size, given.text)
    hostile(given.size)


if __name__ == "__main__":
    main()
