"""The API server, for plugins that talk to it: where it is, and calls to it."""

from .access import SERVICE_ACCOUNT, AccessError, ServerAccess, access_from_environment, unverified
from .client import JSON, ApiClient, ApiError

__all__ = [
    "JSON",
    "SERVICE_ACCOUNT",
    "AccessError",
    "ApiClient",
    "ApiError",
    "ServerAccess",
    "access_from_environment",
    "unverified",
]
