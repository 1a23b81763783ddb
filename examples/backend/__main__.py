"""Starts the backend with sample data: `python -m examples.backend`."""

from contextlib import suppress

import uvicorn

from examples.backend import sample
from examples.backend.app import create_app
from examples.backend.database import Database
from examples.backend.settings import BackendSettings


def main() -> None:
    """Fills an empty database, says where the page is and who can sign in, and serves until it is interrupted."""
    settings = BackendSettings()
    with Database(settings) as database:
        sample.fill(database)
    config = uvicorn.Config(create_app(settings), host="127.0.0.1", port=settings.port, log_level="warning")
    listening = config.bind_socket()
    print(f"The example runs at http://127.0.0.1:{listening.getsockname()[1]}")
    for name, password in sample.USERS.items():
        print(f"  sign in as {name!r} with the password {password!r}")
    print(f"Its data is in {settings.database_url}; Ctrl+C ends it.", flush=True)
    # What the server raises again once it has ended in order.
    with suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main()
