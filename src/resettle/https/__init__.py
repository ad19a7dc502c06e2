"""An HTTPS server on aiohttp, with certificate reload and authorization by the API server.

It knows nothing of what is served: metrics, health, webhooks and pages bring their routes. Start
reading at `server.py`; `certificates.py` has the TLS settings, `authorization.py` says who may ask
for what. `server` and `authorization` import aiohttp, so import them only when something is served.
"""

from resettle.https.certificates import ALL_ADDRESSES, ServingCertificate, Tls

__all__ = ["ALL_ADDRESSES", "ServingCertificate", "Tls"]
