"""What others watch a component by: metrics and health, over HTTPS."""

from resettle.serving.settings import Serving, Tls
from resettle.serving.window import Window, run_meters, tainter_meters

__all__ = ["Serving", "Tls", "Window", "run_meters", "tainter_meters"]
