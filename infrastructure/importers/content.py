"""What a message of an OpenClaw or pi transcript says: its role and blocks as our roles and parts.

| role in the file | becomes |
| --- | --- |
| user, assistant | the same |
| user, marked by OpenClaw as its own (`provenance.kind: "internal_system"`) | system: no user wrote it |
| system | system, if it has any text (pi keeps its own prompt in `sections` and leaves the text empty) |
| toolResult | tool: the result's text, an attachment for each image |
| bashExecution | tool: a command that the user ran beside the model, as a call with its result |
| custom, hookMessage, branchSummary, compactionSummary, any other | nothing: a program's words, nobody's message |

Blocks: `text`, `thinking`, `toolCall` (also spelled toolUse, tool_use, functionCall), `image`. Others are left out, and
so are empty texts. Every string is made storable here, lone surrogates and NUL included.
"""

from collections.abc import Iterable, Iterator, Mapping

from backscroll.domain.model import Role
from backscroll.domain.parts import AttachmentPart, Part, ReasoningPart, TextPart, ToolCallPart, ToolResultPart
from backscroll.domain.text import storable
from backscroll.infrastructure.importers.lines import compact_json

_ROLES = {
    "user": Role.USER,
    "assistant": Role.ASSISTANT,
    "system": Role.SYSTEM,
    "toolResult": Role.TOOL,
    "bashExecution": Role.TOOL,
}
_CALLS = frozenset({"toolCall", "toolUse", "tool_use", "functionCall"})
_UNKNOWN_MEDIA = "application/octet-stream"


def role_of(message: Mapping[str, object]) -> Role | None:
    """The message's role with us; None when messages of its role are left out."""
    role = _ROLES.get(str(message.get("role")))
    source = message.get("provenance")
    if role is Role.USER and isinstance(source, Mapping) and source.get("kind") == "internal_system":
        return Role.SYSTEM
    return role


def parts_of_message(message: Mapping[str, object]) -> tuple[Part, ...]:
    """The message's parts; none when nothing of it can be kept."""
    blocks = _blocks(message.get("content"))
    if message.get("role") == "toolResult":
        return tuple(_result(message, blocks))
    if message.get("role") == "bashExecution":
        return tuple(_execution(message))
    parts = (part for block in blocks if (part := _part(block)) is not None)
    if message.get("role") == "system":
        return tuple(part for part in parts if isinstance(part, TextPart) and part.text.strip())
    return tuple(parts)


def text_in(value: object) -> str | None:
    """`value` made storable, if it is a string with anything in it."""
    return storable(value) if isinstance(value, str) and value else None


def _blocks(content: object) -> list[Mapping[str, object]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [block for block in content if isinstance(block, Mapping)] if isinstance(content, list) else []


def _part(block: Mapping[str, object]) -> Part | None:
    kind = block.get("type")
    if kind == "text":
        text = text_in(block.get("text"))
        return None if text is None else TextPart(text)
    if kind == "thinking":
        text = text_in(block.get("thinking"))
        return None if text is None else ReasoningPart(text)
    if kind == "image":
        return _image(block)
    if isinstance(kind, str) and kind in _CALLS:
        arguments = block.get("arguments", block.get("input"))
        return ToolCallPart(text_in(block.get("name")) or "unknown", _arguments(arguments), text_in(block.get("id")))
    return None


def _arguments(value: object) -> str:
    # Some providers keep the arguments as the JSON text that the model wrote.
    if isinstance(value, str):
        return storable(value)
    return "{}" if value is None else storable(compact_json(value))


def _image(block: Mapping[str, object]) -> AttachmentPart:
    media_type = text_in(block.get("mimeType")) or _UNKNOWN_MEDIA
    data = text_in(block.get("data"))
    if data is None:
        return AttachmentPart(media_type, text_in(block.get("url")))
    return AttachmentPart(media_type, data if data.startswith("data:") else f"data:{media_type};base64,{data}")


def _result(message: Mapping[str, object], blocks: Iterable[Mapping[str, object]]) -> Iterator[Part]:
    call_id = text_in(message.get("toolCallId")) or text_in(message.get("toolUseId"))
    name = text_in(message.get("toolName"))
    failed = message.get("isError") is True
    parts = [part for block in blocks if (part := _part(block)) is not None]
    texts = [part.text for part in parts if isinstance(part, TextPart)]
    # A call that answered nothing, or with an image alone, has been answered all the same.
    yield from (ToolResultPart(text, call_id, name, failed) for text in texts or [""])
    yield from (part for part in parts if isinstance(part, AttachmentPart))


def _execution(message: Mapping[str, object]) -> Iterator[Part]:
    command = message.get("command")
    failed = message.get("cancelled") is True or message.get("exitCode") not in (0, None)
    yield ToolCallPart("bash", storable(compact_json({"command": command if isinstance(command, str) else ""})))
    yield ToolResultPart(text_in(message.get("output")) or "", name="bash", is_error=failed)
