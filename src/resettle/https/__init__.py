"""An HTTPS server on aiohttp: certificates that are reloaded, authorization, limits.

It serves whatever handlers it is given: metrics and health today, webhooks and pages later.
`server` starts and stops it, `certificates` makes or reads the serving certificate,
`authorization` asks the API server who may read. It knows no metrics. Start with `server`.
`telemetry` and `cli` import it.

Import from outside: `authorization`, `server`.
"""

from resettle.https.certificates import ALL_ADDRESSES, ServingCertificate, Tls

__all__ = ["ALL_ADDRESSES", "ServingCertificate", "Tls"]
