"""Who may see which session: one policy, turned into one `Scope` that every reader asks.

A scope is plain data. Storage turns it into SQL; `Scope.admits` is the same rule as a pure function.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from backscroll.domain.errors import InvalidRequest
from backscroll.domain.keys import agent_in_key, checked_key
from backscroll.domain.model import Session
from backscroll.domain.text import checked_name


class Visibility(StrEnum):
    """How far a requester sees: `self` (its own session alone), `tree`, `agent` or `all`."""

    SELF = "self"
    TREE = "tree"
    AGENT = "agent"
    ALL = "all"


class SandboxVisibility(StrEnum):
    """What a sandboxed requester sees at most: itself and what it spawned, or as much as anybody."""

    SPAWNED = "spawned"
    ALL = "all"


class Tree(StrEnum):
    """How much of what a requester spawned or owns is in scope."""

    NONE = "none"
    SAME_AGENT = "same_agent"
    WHOLE = "whole"


@dataclass(frozen=True, slots=True, init=False)
class Requester:
    """On whose behalf a read happens. The trusted host itself reads as `Requester.operator()`.

    Attributes:
        session_key: the session that asks; it need not be stored. None for the operator.
        agent_id: its agent, taken from the key or given; None: it speaks for no agent.
        sandboxed: whether it sees no more than `sandbox_visibility` grants.
    """

    session_key: str | None
    agent_id: str | None
    sandboxed: bool

    def __init__(self, session_key: str, *, agent_id: str | None = None, sandboxed: bool = False) -> None:
        """Checks what is given.

        Raises:
            InvalidRequest: the key cannot be one, or the agent contradicts it.
        """
        key = checked_key(session_key, "the requester's session_key")
        named = agent_in_key(key)
        if agent_id is not None and named is not None and checked_name(agent_id, "agent_id") != named:
            raise InvalidRequest(f"agent_id {agent_id!r} contradicts the requester's session_key")
        self._set(key, named if agent_id is None else checked_name(agent_id, "agent_id"), bool(sandboxed))

    @classmethod
    def operator(cls) -> "Requester":
        """Trusted code of the host: sees every session but the incognito ones."""
        requester = object.__new__(cls)
        requester._set(None, None, False)
        return requester

    @property
    def is_operator(self) -> bool:
        """Whether this is the trusted operator."""
        return self.session_key is None

    def _set(self, session_key: str | None, agent_id: str | None, sandboxed: bool) -> None:
        object.__setattr__(self, "session_key", session_key)
        object.__setattr__(self, "agent_id", agent_id)
        object.__setattr__(self, "sandboxed", sandboxed)


def glob_matches(pattern: str, text: str) -> bool:
    """Whether `text` fits `pattern`, in which `*` stands for any run of characters; nothing else is special."""
    first, *rest = pattern.split("*")
    if not rest:
        return pattern == text
    last = rest.pop()
    if len(text) < len(first) + len(last) or not text.startswith(first) or not text.endswith(last):
        return False
    position, end = len(first), len(text) - len(last)
    for piece in rest:
        found = text.find(piece, position, end)
        if found < 0:
            return False
        position = found + len(piece)
    return True


@dataclass(frozen=True, slots=True)
class AgentToAgent:
    """Access between agents. `allow` None: every pair; ids and globs: both agents must fit one; pairs: exactly those.

    Ids and pairs are exact; a glob, in which `*` stands for any run of characters, ignores case.
    """

    enabled: bool = True
    allow: tuple[str | tuple[str, str], ...] | None = None

    def permits(self, requester: str, target: str) -> bool:
        """Whether `requester` may read the sessions of the other agent `target`."""
        if not self.enabled:
            return False
        if self.allow is None:
            return True
        names = [rule for rule in self.allow if isinstance(rule, str)]
        return (requester, target) in self.allow or (
            any(_fits(name, requester) for name in names) and any(_fits(name, target) for name in names)
        )


def _fits(rule: str, agent_id: str) -> bool:
    """An agent's id means that agent alone; a glob is written by hand and for many, and ignores case."""
    if "*" in rule:
        return glob_matches(rule.casefold(), agent_id.casefold())
    return rule == agent_id


class Scope(NamedTuple):
    """The sessions a requester may see.

    The union of: everything (the operator); its own session; of its tree as much as `tree` says; its own agent's, when
    `same_agent` is set; those of every other agent that `others` permits. Incognito sessions are never searched or
    listed for anybody else and open for themselves alone.

    `roots`: sessions of the tree that are kept elsewhere; what names one of them as its parent is in the tree too.
    """

    own_key: str | None
    agent_id: str | None = None
    everything: bool = False
    tree: Tree = Tree.NONE
    same_agent: bool = False
    others: AgentToAgent | None = None
    roots: frozenset[str] = frozenset()

    def admits_agent(self, agent_id: str) -> bool:
        """Whether every session of `agent_id` that is not incognito is in scope."""
        if self.everything:
            return True
        if self.agent_id is None:
            return False
        if agent_id == self.agent_id:
            return self.same_agent
        return self.others is not None and self.others.permits(self.agent_id, agent_id)

    @property
    def admits_others(self) -> bool:
        """Whether `admits_agent` can hold for another agent than the requester's own."""
        return self.everything or (self.agent_id is not None and self.others is not None and self.others.enabled)

    @property
    def admits_every_agent(self) -> bool:
        """Whether `admits_agent` holds for any agent whatever, so that nobody need be asked."""
        if self.everything:
            return True
        unrestricted = self.others is not None and self.others.enabled and self.others.allow is None
        return self.agent_id is not None and self.same_agent and unrestricted

    def reach(self, sessions: Iterable[Session]) -> set[str]:
        """The keys of the tree below the requester's own session, among all `sessions`, as far as it is in scope.

        It ends at a session that is not in scope itself: what lies behind would tell of it.
        """
        if self.own_key is None or self.tree is Tree.NONE:
            return set()
        same_agent = self.tree is Tree.SAME_AGENT
        followed = (one for one in sessions if not one.incognito and (not same_agent or one.agent_id == self.agent_id))
        parents = {one.session_key: (one.spawned_by, one.owner) for one in followed}
        return descendants({self.own_key, *self.roots}, parents)

    def admits(self, session: Session, tree: Iterable[str] = ()) -> bool:
        """Whether `session` is in scope; `tree` is what `reach` gives."""
        if session.session_key == self.own_key:
            return True
        if session.incognito:
            return False
        if self.admits_agent(session.agent_id):
            return True
        in_reach = self.tree is Tree.WHOLE or (self.tree is Tree.SAME_AGENT and session.agent_id == self.agent_id)
        return in_reach and session.session_key in tree


@dataclass(frozen=True, slots=True)
class VisibilityPolicy:
    """The configured rule, the same for search, history and listing."""

    visibility: Visibility = Visibility.ALL
    agent_to_agent: AgentToAgent = AgentToAgent()
    sandbox_visibility: SandboxVisibility = SandboxVisibility.SPAWNED

    def scope(self, requester: Requester) -> Scope:
        """What `requester` may see under this policy; raises `InvalidRequest` for anything but a `Requester`."""
        if not isinstance(requester, Requester):
            raise InvalidRequest(f"requester must be a Requester, not {type(requester).__name__}")
        if requester.is_operator:
            return Scope(own_key=None, everything=True)
        spawned_only = requester.sandboxed and self.sandbox_visibility is SandboxVisibility.SPAWNED
        match self.visibility:
            case Visibility.SELF:
                tree = Tree.NONE
            case Visibility.AGENT:
                tree = Tree.SAME_AGENT
            case Visibility.TREE | Visibility.ALL:
                tree = Tree.WHOLE
        return Scope(
            own_key=requester.session_key,
            agent_id=requester.agent_id,
            tree=tree,
            same_agent=self.visibility in (Visibility.AGENT, Visibility.ALL) and not spawned_only,
            others=self.agent_to_agent if self.visibility is Visibility.ALL and not spawned_only else None,
        )


def descendants(roots: Iterable[str], parents: Mapping[str, Iterable[str | None]]) -> set[str]:
    """The keys of the sessions that the `roots` spawned or own, and theirs; `parents` gives each key's two parents.

    A loop ends: each key is followed once.
    """
    children: dict[str, list[str]] = {}
    for key, above in parents.items():
        for parent in above:
            if parent is not None:
                children.setdefault(parent, []).append(key)
    found: set[str] = set()
    waiting = list(roots)
    while waiting:
        for key in children.get(waiting.pop(), ()):
            if key not in found:
                found.add(key)
                waiting.append(key)
    return found
