"""Speed and memory, measured beside kubernetes-sigs/descheduler."""
