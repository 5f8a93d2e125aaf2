"""Google's error shape, and one constructor for each reason to refuse."""

from collections.abc import Sequence

from localcloud.jsontypes import Json

_STATUS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ALREADY_EXISTS",
    412: "FAILED_PRECONDITION",
    416: "OUT_OF_RANGE",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    501: "UNIMPLEMENTED",
    502: "UNAVAILABLE",
    503: "UNAVAILABLE",
}
_REASON = {
    400: "badRequest",
    401: "required",
    403: "forbidden",
    404: "notFound",
    409: "alreadyExists",
    412: "conditionNotMet",
    416: "requestedRangeNotSatisfiable",
    429: "rateLimitExceeded",
    500: "backendError",
    501: "notImplemented",
    502: "backendError",
    503: "backendError",
}


class ApiError(Exception):
    """A refusal that is answered as Google answers it: HTTP code, status, reason and message."""

    def __init__(
        self, code: int, message: str, *, status: str = "", reason: str = "", details: Sequence[Json] = ()
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.status = status or _STATUS.get(code, "UNKNOWN")
        self.reason = reason or _REASON.get(code, "backendError")
        self.details = details

    def document(self) -> Json:
        """The body of the answer."""
        error: Json = {
            "code": self.code,
            "message": self.message,
            "status": self.status,
            "errors": [{"message": self.message, "domain": "global", "reason": self.reason}],
        }
        if self.details:
            error["details"] = list(self.details)
        return {"error": error}


def invalid(message: str) -> ApiError:
    """400: the request can never succeed as it is."""
    return ApiError(400, message, reason="invalid")


def invalid_field(field: str, message: str) -> ApiError:
    """400 that names the field, in the message and as a BadRequest detail."""
    detail: Json = {
        "@type": "type.googleapis.com/google.rpc.BadRequest",
        "fieldViolations": [{"field": field, "description": message}],
    }
    return ApiError(400, f"{field}: {message}", reason="invalid", details=[detail])


def not_found(what: str) -> ApiError:
    """404 for a resource name."""
    return ApiError(404, f"Resource '{what}' was not found.")


def already_exists(what: str) -> ApiError:
    """409 for a resource name that is taken."""
    return ApiError(409, f"Resource '{what}' already exists.")


def aborted(message: str) -> ApiError:
    """409 for a lost race: read again and repeat."""
    return ApiError(409, message, status="ABORTED", reason="aborted")


def failed_precondition(message: str) -> ApiError:
    """400: right request, wrong moment."""
    return ApiError(400, message, status="FAILED_PRECONDITION", reason="failedPrecondition")


def unsupported(message: str) -> ApiError:
    """501: Google does this, the local cloud does not, and says so instead of guessing."""
    return ApiError(501, message)
