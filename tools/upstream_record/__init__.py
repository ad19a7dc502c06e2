"""Records what kubernetes-sigs/descheduler decides, as test data."""
