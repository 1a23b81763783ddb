"""Settings: one class, read from `BACKSCROLL_*` environment variables (nested ones with `__`) when it is made."""

import os
import re
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict, SettingsError

from backscroll.domain.errors import InvalidRequest
from backscroll.domain.limits import Limits
from backscroll.domain.visibility import AgentToAgent, SandboxVisibility, Visibility, VisibilityPolicy

_PREFIX = "BACKSCROLL_"
_USUAL = Limits()
Name = Annotated[str, Field(min_length=1)]


class AgentToAgentSettings(BaseModel):
    """Access between agents: `allow` unset is every pair; a list of globs that both agents must match, or of pairs."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    enabled: bool = True
    allow: tuple[Name | tuple[Name, Name], ...] | None = None


class BoundsSettings(BaseModel):
    """Bounds of requests and answers; lengths in characters, sizes in bytes of UTF-8 JSON."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    search_hits: int = Field(_USUAL.search_hits, ge=1)
    search_hits_max: int = Field(_USUAL.search_hits_max, ge=1)
    query_chars: int = Field(_USUAL.query_chars, ge=1)
    excerpt_chars: int = Field(_USUAL.excerpt_chars, ge=16)
    search_bytes: int = Field(_USUAL.search_bytes, ge=1024)
    history_messages: int = Field(_USUAL.history_messages, ge=1)
    history_messages_max: int = Field(_USUAL.history_messages_max, ge=1)
    message_chars: int = Field(_USUAL.message_chars, ge=16)
    history_bytes: int = Field(_USUAL.history_bytes, ge=1024)
    listed_sessions: int = Field(_USUAL.listed_sessions, ge=1)
    listed_sessions_max: int = Field(_USUAL.listed_sessions_max, ge=1)


class Settings(BaseSettings):
    """Everything that can be configured."""

    model_config = SettingsConfigDict(
        env_prefix=_PREFIX,
        env_nested_delimiter="__",
        extra="ignore",
        frozen=True,
        nested_model_default_partial_update=True,
    )

    database_url: str = "sqlite:///backscroll.db"
    visibility: Visibility = Visibility.ALL
    agent_to_agent: AgentToAgentSettings = AgentToAgentSettings()
    sandbox_visibility: SandboxVisibility = SandboxVisibility.SPAWNED
    bounds: BoundsSettings = BoundsSettings()
    rank_bound: int = Field(
        _USUAL.rank_bound, ge=25, description="matches up to which all are ranked; of more, the newest fifth of it"
    )
    inline_reindex_limit: int = Field(
        _USUAL.inline_reindex_limit, ge=0, description="messages that a rewind or switch reindexes in its transaction"
    )
    background_reindex: bool = Field(
        default=True,
        description="whether a search that meets pending transcripts starts a thread, or a task, that reindexes them",
    )
    busy_timeout: float = Field(10.0, ge=0, description="seconds to wait for a lock")
    open_agent_files: int = Field(32, ge=2, description="agents' files that are open at a time")
    search_threads: int = Field(4, ge=1, description="threads of one search over several agents' files")
    synchronous: Literal["FULL", "NORMAL"] = "FULL"
    telemetry: Literal["off", "otel"] = Field(default="off", description="`otel`: spans and metrics by OpenTelemetry")

    def policy(self) -> VisibilityPolicy:
        """The visibility policy that these settings ask for."""
        between = AgentToAgent(self.agent_to_agent.enabled, self.agent_to_agent.allow)
        return VisibilityPolicy(self.visibility, between, self.sandbox_visibility)

    def limits(self) -> Limits:
        """The bounds that these settings ask for."""
        return Limits(
            **self.bounds.model_dump(), rank_bound=self.rank_bound, inline_reindex_limit=self.inline_reindex_limit
        )


def from_environment() -> Settings:
    """The settings that the environment asks for; raises `InvalidRequest` that names the variable that is wrong."""
    try:
        return Settings()
    except ValidationError as error:
        wrong = [f"{_variable(one['loc'])}: {one['msg']}" for one in error.errors(include_url=False)]
        raise InvalidRequest("; ".join(dict.fromkeys(wrong))) from error
    except SettingsError as error:
        field = re.search(r'field "(\w+)"', str(error))
        name = f"{_PREFIX}{field[1].upper()}" if field else "a setting"
        raise InvalidRequest(f"{name}: must be JSON") from error


def _variable(place: tuple[int | str, ...]) -> str:
    """The environment variable that sets what is at `place` in the settings; inside its JSON, where."""
    present = {name.upper() for name in os.environ}
    for length in range(len(place), 0, -1):
        name = _PREFIX + "__".join(str(one) for one in place[:length]).upper()
        if name in present:
            # Between names and positions pydantic puts the types that it tried.
            inside = ".".join(one for one in map(str, place[length:]) if one.isidentifier() or one.isdecimal())
            return f"{name} ({inside})" if inside else name
    return _PREFIX + "__".join(str(one) for one in place).upper()
