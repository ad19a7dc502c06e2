"""What others watch a run by: metrics and health, over HTTPS."""

from resettle.serving.settings import Serving, Tls
from resettle.serving.window import Window

__all__ = ["Serving", "Tls", "Window"]
