"""From kubernetes-sigs/descheduler to resettle: what stays, what changes, what was never so."""
