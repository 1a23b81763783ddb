"""The agent that users talk to.

It answers at once, inside the transaction that stores what was said. One that takes seconds belongs between two
transactions, one for the question and one for the answer: SQLite has one writer at a time.
"""

OPENING = "You repeat what the user says."
"""The system message that every conversation begins with. It is stored and neither searched nor shown."""


def answer(said: str) -> str:
    """What the agent says to `said`."""
    return f"You said: {said}"
