"""The process of a server in the background: `python -m localcloud.server SETTINGS_AS_JSON`."""

import sys

from localcloud.client import REFUSAL_PREFIX
from localcloud.server.serve import StartError, serve
from localcloud.server.stamps import AttributesMissingError
from localcloud.settings import Settings

try:
    serve(Settings.from_json(sys.argv[1]))
except (StartError, AttributesMissingError) as error:
    sys.exit(f"{REFUSAL_PREFIX}{error}")
