"""A server for one fitted run: features, search and explanations over HTTP, and the atlas."""

from nonneg.serve.app import create_app
from nonneg.serve.running import serve_run
from nonneg.serve.service import Limits, Service, open_service

__all__ = ["Limits", "Service", "create_app", "open_service", "serve_run"]
