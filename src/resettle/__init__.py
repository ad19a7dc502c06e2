"""resettle moves running pods to better places, and says why."""

__version__ = "0.1.0"
