"""What others watch a component by: metrics and health, over HTTPS."""

from resettle.serving.settings import Serving, Tls
from resettle.serving.window import Window, meters_of_a_run, meters_of_the_tainter

__all__ = ["Serving", "Tls", "Window", "meters_of_a_run", "meters_of_the_tainter"]
