"""The agent that users talk to. A real one would call a model here, before the transaction that stores its answer."""

OPENING = "You repeat what the user says."
"""The system message that every conversation begins with. It is stored and neither searched nor shown."""


def answer(said: str) -> str:
    """What the agent says to `said`."""
    return f"You said: {said}"
