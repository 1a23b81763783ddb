"""A state machine: whatever happens in whatever order, index, rows and a plain model of the trees agree."""

import json
import shutil
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from backscroll import Backscroll, Requester, RewindAcrossReset
from backscroll.infrastructure import fts
from backscroll.infrastructure.engine import begun, create_engine
from tests.factories import opened

KEYS = ["agent:a:main", "agent:a:other", "agent:b:main"]
WORDS = ["granite", "basalt", "评审会议", "Straße", "회의록", "quartz-9", "ประชุม"]
OPERATOR = Requester.operator()
SPOKEN = ("user", "assistant")


@dataclass
class Node:
    """A message; `resets` are those that lie before it on its line."""

    name: str
    parent: str | None
    role: str
    text: str
    resets: tuple[int, ...]


@dataclass
class Tree:
    """One transcript: nodes by name, branches as (head, resets on their line), which of them is active.

    `after` names the message that each reset lies behind, `kept` what it kept.
    """

    nodes: dict[str, Node] = field(default_factory=dict)
    branches: list[tuple[str | None, tuple[int, ...]]] = field(default_factory=lambda: [(None, ())])
    active: int = 0
    after: dict[int, str | None] = field(default_factory=dict)
    kept: dict[int, tuple[str, ...]] = field(default_factory=dict)
    findable: set[str] = field(default_factory=set)

    def line(self, head: str | None) -> list[Node]:
        found: list[Node] = []
        while head is not None:
            found.append(self.nodes[head])
            head = found[-1].parent
        return found[::-1]

    @property
    def head(self) -> str | None:
        return self.branches[self.active][0]

    @property
    def resets(self) -> tuple[int, ...]:
        return self.branches[self.active][1]

    @property
    def path(self) -> list[Node]:
        return self.line(self.head)

    def view(self) -> list[Node]:
        if not self.resets:
            return self.path
        latest = self.resets[-1]
        return [node for node in self.path if latest in node.resets or node.name in self.kept[latest]]

    def ending_at(self, name: str) -> int:
        """The branch that ends in a message, made if there is none yet."""
        node = self.nodes[name]
        on_path = name in {one.name for one in self.path}
        behind = tuple(one for one in self.resets if on_path and self.after[one] == name)
        branch = (name, node.resets + behind)
        if branch not in self.branches:
            self.branches.append(branch)
        return self.branches.index(branch)

    def add(self, node: Node) -> None:
        self.nodes[node.name] = node
        self.branches[self.active] = (node.name, self.resets)
        if node.role in SPOKEN and node.text:
            self.findable.add(node.name)

    def switch(self, branch: int, limit: int) -> None:
        before = {one.name for one in self.path}
        self.active = branch
        after = {one.name for one in self.path}
        if len(before ^ after) <= limit:
            # In one transaction with its index; more is left to the reindexing.
            self.findable |= {one for one in after - before if self.speaks(one)}
        self.findable &= after

    def speaks(self, name: str) -> bool:
        return self.nodes[name].role in SPOKEN and bool(self.nodes[name].text)


class Machine(RuleBasedStateMachine):
    empty_store: Path
    folder: Path
    runs = count()

    def __init__(self) -> None:
        super().__init__()
        self.path = self.folder / f"store{next(self.runs)}.db"
        shutil.copyfile(self.empty_store, self.path)
        self.host = create_engine(f"sqlite:///{self.path}", busy_timeout=5, synchronous="NORMAL")
        self.trees: dict[str, list[Tree]] = {}
        self.ids: dict[str, list[str]] = {}
        self.names = count(1)
        self.numbers = count(1)
        self.imported = 0

    @initialize(limit=st.sampled_from([0, 1, 3, 500]))
    def open(self, limit: int) -> None:
        self.limit = limit
        self.scroll = opened(self.path, inline_reindex_limit=limit)

    def teardown(self) -> None:
        if hasattr(self, "scroll"):
            assert self.scroll.repair().ok
            self.settled()
            self.everything_agrees()
            self.scroll.close()
        self.host.dispose()
        for leftover in self.folder.glob(f"{self.path.name}*"):
            leftover.unlink()

    def settled(self) -> None:
        """Everything pending is done: all that is spoken on a path can be found."""
        for trees in self.trees.values():
            for tree in trees:
                tree.findable = {node.name for node in tree.path if tree.speaks(node.name)}

    def tree(self, key: str) -> Tree:
        """The current tree of a session, made with the session if it is new."""
        if key not in self.trees:
            self.ids[key] = [self.scroll.ensure_session(key).session_id]
            self.trees[key] = [Tree()]
        return self.trees[key][-1]

    def text(self, words: list[str], name: str) -> str:
        return " ".join([*words, f"only{name}"])

    keys = st.sampled_from(KEYS)
    roles = st.sampled_from(["user", "user", "assistant", "tool", "system"])
    texts = st.lists(st.sampled_from(WORDS), max_size=2)
    picks = st.integers(0, 10_000)

    @rule(key=keys, roles=st.lists(roles, min_size=1, max_size=4), words=texts)
    def append(self, key: str, roles: list[str], words: list[str]) -> None:
        tree = self.tree(key)
        nodes = []
        for role in roles:
            name = f"n{next(self.names)}"
            nodes.append(Node(name, None, role, self.text(words, name), tree.resets))
        self.scroll.append_many(key, [{"role": one.role, "content": one.text, "message_id": one.name} for one in nodes])
        for node in nodes:
            node.parent = tree.head
            tree.add(node)

    def picked(self, key: str, pick: int) -> tuple[Tree, str] | None:
        tree = self.tree(key)
        names = sorted(tree.nodes, key=lambda name: int(name[1:]))
        return (tree, names[pick % len(names)]) if names else None

    @rule(key=keys, pick=picks, role=roles, words=texts)
    def append_to_a_parent(self, key: str, pick: int, role: str, words: list[str]) -> None:
        if (picked := self.picked(key, pick)) is None:
            return
        tree, parent = picked
        name = f"n{next(self.names)}"
        text = self.text(words, name)
        stored = self.scroll.append(key, role, text, message_id=name, parent_id=parent)
        assert (stored.parent_id, stored.active) == (parent, True)
        if parent != tree.head:
            tree.switch(tree.ending_at(parent), self.limit)
        tree.add(Node(name, parent, role, text, tree.resets))

    @rule(key=keys, pick=picks, words=texts, empty=st.sampled_from([False, False, False, True]))
    def edit(self, key: str, pick: int, words: list[str], empty: bool) -> None:
        if (picked := self.picked(key, pick)) is None:
            return
        tree, name = picked
        text = "" if empty else self.text([*words, f"edit{next(self.numbers)}"], name)
        self.scroll.edit(key, name, text)
        tree.nodes[name].text = text
        tree.findable.discard(name)
        if name in {one.name for one in tree.path} and tree.speaks(name):
            tree.findable.add(name)

    @rule(key=keys, pick=picks)
    def rewind(self, key: str, pick: int) -> None:
        tree = self.tree(key)
        if not tree.path:
            return
        target = tree.path[pick % len(tree.path)]
        if tree.resets and tree.resets[-1] not in target.resets:
            with pytest.raises(RewindAcrossReset):
                self.scroll.rewind(key, target.name)
            return
        assert self.scroll.rewind(key, target.name).head == target.name
        if target.name != tree.head:
            tree.switch(tree.ending_at(target.name), self.limit)

    @rule(key=keys, pick=picks)
    def switch(self, key: str, pick: int) -> None:
        tree = self.tree(key)
        stored = self.scroll.branches(key)
        assert sorted((one.head or "", one.depth) for one in stored) == sorted(
            (head or "", len(tree.line(head))) for head, _ in tree.branches
        )
        branch = pick % len(tree.branches)
        # Newest first behind the active one; the model has them in the order of their making.
        order = [tree.active, *[one for one in reversed(range(len(tree.branches))) if one != tree.active]]
        self.scroll.switch_branch(key, stored[order.index(branch)].branch_id)
        if branch != tree.active:
            tree.switch(branch, self.limit)

    @rule(key=keys, keep=st.none() | st.integers(0, 5))
    def reset(self, key: str, keep: int | None) -> None:
        tree = self.tree(key)
        number = next(self.numbers)
        spoken = [one.name for one in tree.view() if one.role in SPOKEN]
        tree.kept[number] = tuple(spoken[-keep:]) if keep else ()
        tree.after[number] = tree.head
        self.scroll.reset(key, keep=keep)
        tree.branches[tree.active] = (tree.head, (*tree.resets, number))

    @rule(key=keys)
    def rotate(self, key: str) -> None:
        self.tree(key)
        self.ids[key].append(self.scroll.reset(key, rotate=True).session_id)
        self.trees[key].append(Tree())

    @rule(key=keys)
    def delete(self, key: str) -> None:
        assert self.scroll.delete_session(key) == (key in self.trees)
        self.trees.pop(key, None)
        self.ids.pop(key, None)

    @rule()
    def reindex(self) -> None:
        assert self.scroll.reindex().failed == ()
        self.settled()

    @contextmanager
    def undone(self, depth: int):
        """A facade in a host's transaction, at that depth of savepoints, all of which roll back."""
        with begun(self.host, writing=True) as connection:
            savepoints = [connection.begin_nested() for _ in range(depth)]
            yield self.scroll.using(connection)
            fts.check(connection)
            for savepoint in reversed(savepoints):
                savepoint.rollback()
                fts.check(connection)
            connection.rollback()

    @precondition(lambda self: self.trees)
    @rule(
        key=keys,
        depth=st.integers(0, 2),
        what=st.sampled_from(["append", "branch", "edit", "rewind", "reset", "rotate", "delete", "reindex"]),
        pick=picks,
    )
    def roll_back(self, key: str, depth: int, what: str, pick: int) -> None:
        tree = self.tree(key)
        picked = self.picked(key, pick)
        with self.undone(depth) as scroll:
            attempts: dict[str, Callable[[Backscroll], object]] = {
                "append": lambda s: s.append(key, "user", "undone"),
                "branch": lambda s: picked and s.append(key, "user", "undone", parent_id=picked[1]),
                "edit": lambda s: picked and s.edit(key, picked[1], "undone 评审"),
                "rewind": lambda s: tree.view()[-1:] and s.append(key, "user", "undone", parent_id=tree.path[0].name),
                "reset": lambda s: s.reset(key, keep=1),
                "rotate": lambda s: s.reset(key, rotate=True),
                "delete": lambda s: s.delete_session(key),
                "reindex": lambda s: s.reindex(),
            }
            attempts[what](scroll)
            assert scroll.verify().ok

    @rule(lines=st.lists(st.tuples(st.sampled_from(SPOKEN), texts), min_size=1, max_size=3))
    def import_a_file(self, lines: list[tuple[str, list[str]]]) -> None:
        self.imported += 1
        session_id = f"imported{self.imported}"
        tree = Tree()
        records: list[dict[str, object]] = [
            {"type": "session", "version": 3, "id": session_id, "timestamp": "2026-03-01T12:00:00.000Z", "cwd": "/"}
        ]
        for role, words in lines:
            name = f"n{next(self.names)}"
            node = Node(name, tree.head, role, self.text(words, name), ())
            records.append(
                {
                    "type": "message",
                    "id": name,
                    "parentId": tree.head,
                    "timestamp": "2026-03-01T12:00:01.000Z",
                    "message": {"role": role, "content": [{"type": "text", "text": node.text}]},
                }
            )
            tree.add(node)
        path = self.folder / f"{session_id}.jsonl"
        path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
        for expected in (len(lines), 0):
            report = self.scroll.import_transcripts(path, agent_id="a")
            assert (report.messages, report.bad, report.sessions) == (expected, 0, 1)
        path.unlink()
        (key,) = [
            one.session_key
            for one in self.scroll.sessions(requester=OPERATOR, limit=500)
            if one.session_id == session_id
        ]
        self.ids[key], self.trees[key] = [session_id], [tree]

    @invariant()
    def everything_agrees(self) -> None:
        if not hasattr(self, "scroll"):
            return
        with begun(self.host, writing=True) as connection:
            fts.check(connection)
        report = self.scroll.verify()
        assert report.problems == ()
        for key, trees in self.trees.items():
            for session_id, tree in zip(self.ids[key], trees, strict=True):
                self.agrees(key, session_id, tree)

    def agrees(self, key: str, session_id: str, tree: Tree) -> None:
        shown = self.scroll.history(key, requester=OPERATOR, session_id=session_id, limit=200, include_tools=True)
        assert [(one.message_id, one.role, one.text) for one in shown.messages] == [
            (node.name, node.role, node.text) for node in tree.view()
        ]
        assert shown.total == len(tree.view())
        found: set[str] = set()
        page = (
            self.scroll.search(
                "only" + " only".join(tree.nodes), requester=OPERATOR, match="any", session_key=key, limit=25
            )
            if tree.nodes
            else None
        )
        if page is not None:
            found = {hit.message_id for hit in page.hits if hit.session_id == session_id}
            path = {node.name for node in tree.path if tree.speaks(node.name)}
            assert found <= path, "a message off the path was found"
            if not page.truncated:
                # What could be found once is found as long as it stays on the path; a pending one may be found early.
                assert tree.findable <= found
                if not page.indexing:
                    assert found == path

    @rule(key=keys, pick=picks)
    def find_every_word(self, key: str, pick: int) -> None:
        """Any word of a message that can be found finds it."""
        tree = self.tree(key)
        if not tree.findable:
            return
        name = sorted(tree.findable)[pick % len(tree.findable)]
        for word in tree.nodes[name].text.split():
            page = self.scroll.search(f"{word} only{name}", requester=OPERATOR)
            assert [hit.message_id for hit in page.hits] == [name]


def test_index_rows_and_model_agree_after_every_step(empty_store: Path, tmp_path: Path) -> None:
    machine = type("ThisMachine", (Machine,), {"empty_store": empty_store, "folder": tmp_path})
    run_state_machine_as_test(machine, settings=settings(max_examples=12, stateful_step_count=25))
