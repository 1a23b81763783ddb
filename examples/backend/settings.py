"""What an operator may choose, from `EXAMPLE_*` environment variables."""

from pydantic_settings import BaseSettings, SettingsConfigDict


class BackendSettings(BaseSettings):
    """Where the backend keeps its data and how it is reached."""

    model_config = SettingsConfigDict(env_prefix="EXAMPLE_")

    database_url: str = "sqlite:///example.db"
    lock_timeout: float = 10.0
    """Seconds to wait for another writer, before the answer is that the database is busy."""
    port: int = 8000
    """On the loopback interface; 0 takes any free one."""
    allowed_hosts: list[str] = ["127.0.0.1", "localhost"]
    """Names under which browsers may reach the backend; others are refused."""
    secure_cookies: bool = False
    """Set it wherever the backend is served over HTTPS."""
