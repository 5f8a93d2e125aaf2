"""Where requests may go, what goes with them, and what is done about answers that are no success."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from localcloud.provider import rest as rest_module
from localcloud.provider.errors import ApiError, Refused, Unfinished, Unreachable
from localcloud.provider.rest import Rest
from localcloud.provider.settings import ENDPOINTS, Settings, check_settings, settings_of

GIVEN = {key: f"http://127.0.0.1:8790/{path}" for key, path in ENDPOINTS.items()} | {"project": "demo"}


@dataclass
class Api:
    """A server that answers in the given order; the last answer again and again."""

    answers: list[tuple[int, Any]]
    seen: list[tuple[str, str, dict[str, str]]] = field(default_factory=list[tuple[str, str, dict[str, str]]])
    url: str = ""


@pytest.fixture
def api() -> Iterator[Api]:
    api = Api([(200, {})])

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("content-length") or 0))
            api.seen.append((self.command, self.path, dict(self.headers)))
            status, body = api.answers.pop(0) if len(api.answers) > 1 else api.answers[0]
            data = json.dumps(body).encode() if not isinstance(body, bytes) else body
            self.send_response(status)
            if status == 302:
                self.send_header("location", "http://storage.googleapis.com/")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def __getattr__(self, name: str) -> Any:
            # The base class looks for do_GET, do_POST and so on.
            if name.startswith("do_"):
                return self.answer
            raise AttributeError(name)

        def log_message(self, format: str, *args: Any) -> None:
            """Silence."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    api.url = f"http://127.0.0.1:{server.server_port}"
    yield api
    server.shutdown()
    server.server_close()


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rest_module, "_PAUSES_S", (0.0,) * 5)
    monkeypatch.setattr(rest_module, "_REFUSED_PAUSES_S", (0.0, 0.0))


class TestSettings:
    def test_the_documented_keys_are_accepted(self) -> None:
        given = {
            **GIVEN,
            "accessToken": "any",
            "skipRegionValidation": "true",
            "pollInterval": "500ms",
            "batching": '{"enableBatching": false}',
            "defaultLabels": '{"team": "x"}',
            "loggingCustomEndpoint": "http://localhost:8790/logging/v2/",
            "version": "10.2.0",
        }
        settings = settings_of(given)
        assert (settings.poll_interval_s, settings.default_labels) == (0.5, {"team": "x"})

    @pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "[::1]", "localhost"])
    def test_this_machine_has_several_names(self, host: str) -> None:
        assert check_settings({**GIVEN, "storageCustomEndpoint": f"http://{host}:1/storage/v1/"}) == []

    @pytest.mark.parametrize(
        "address",
        [
            "https://storage.googleapis.com/storage/v1/",
            "http://10.0.0.1/",
            "http://0.0.0.0:8790/",
            "http://127.0.0.1.example.com/",
            "http://127.0.0.1@example.com/",
            "http://169.254.169.254/",
            "ftp://127.0.0.1/",
            "127.0.0.1:8790",
            "",
        ],
    )
    @pytest.mark.parametrize("key", ["storageCustomEndpoint", "monitoringCustomEndpoint"])
    def test_every_endpoint_must_be_this_machine(self, key: str, address: str) -> None:
        failures = check_settings({**GIVEN, key: address})
        assert key in {failure.path for failure in failures}
        with pytest.raises(Refused, match=key):
            settings_of({**GIVEN, key: address})

    @pytest.mark.parametrize("key", ENDPOINTS)
    def test_every_endpoint_that_a_type_needs_must_be_given(self, key: str) -> None:
        failures = check_settings({name: value for name, value in GIVEN.items() if name != key})
        assert [failure.path for failure in failures] == [key]
        assert f"pulumi config set gcp:{key} http://127.0.0.1" in failures[0].reason

    @pytest.mark.parametrize(
        ("key", "value", "words"),
        [
            ("projct", "x", "Did you mean gcp:project?"),
            ("billingProject", "x", "gcp:billingProject is not a key that this plugin knows"),
            ("credentials", "{}", "takes no credentials"),
            ("impersonateServiceAccount", "x", "takes no credentials"),
            ("pollInterval", "soon", "write it like 1s"),
            ("defaultLabels", "[1]", "must be a map of strings"),
        ],
    )
    def test_other_keys_are_named(self, key: str, value: str, words: str) -> None:
        failures = check_settings({**GIVEN, key: value})
        assert [failure.path for failure in failures] == [key]
        assert words in failures[0].reason


class TestRequests:
    def test_only_the_configured_token_goes_along(self, api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("GOOGLE_OAUTH_ACCESS_TOKEN", "ambient")
        monkeypatch.setenv("HTTP_PROXY", "http://10.0.0.1:3128")
        monkeypatch.setenv("ALL_PROXY", "http://10.0.0.1:3128")
        Rest(Settings(access_token="any")).call("GET", f"{api.url}/x")
        Rest(Settings()).call("GET", f"{api.url}/x")
        assert [headers.get("Authorization") for _, _, headers in api.seen] == ["Bearer any", None]
        assert [path for _, path, _ in api.seen] == ["/x?alt=json"] * 2

    def test_another_machine_is_never_asked(self) -> None:
        with pytest.raises(Refused, match="is not this machine"):
            Rest(Settings()).call("GET", "http://storage.googleapis.com/storage/v1/b")

    def test_a_redirect_is_not_followed(self, api: Api) -> None:
        api.answers = [(302, {})]
        with pytest.raises(ApiError, match="is not followed"):
            Rest(Settings()).call("GET", f"{api.url}/x")
        assert len(api.seen) == 1

    def test_an_error_shows_status_and_googles_words(self, api: Api) -> None:
        api.answers = [(403, {"error": {"code": 403, "message": "no quota", "status": "PERMISSION_DENIED"}})]
        with pytest.raises(ApiError, match=r"HTTP 403 PERMISSION_DENIED: no quota \(POST /x\)"):
            Rest(Settings()).call("POST", f"{api.url}/x", body={})

    @pytest.mark.parametrize(("method", "status"), [("GET", 500), ("GET", 503), ("POST", 503), ("POST", 429)])
    def test_a_passing_failure_is_waited_out(self, api: Api, method: str, status: int) -> None:
        api.answers = [(status, {})] * 3 + [(200, {"ok": True})]
        assert Rest(Settings()).call(method, f"{api.url}/x") == {"ok": True}

    def test_a_lasting_failure_ends_after_six_requests(self, api: Api) -> None:
        api.answers = [(503, b"upstream")]
        with pytest.raises(ApiError, match="HTTP 503"):
            Rest(Settings()).call("GET", f"{api.url}/x")
        assert len(api.seen) == 6

    def test_a_post_that_may_have_happened_is_not_repeated(self, api: Api) -> None:
        api.answers = [(500, {})]
        with pytest.raises(ApiError):
            Rest(Settings()).call("POST", f"{api.url}/x", body={})
        assert len(api.seen) == 1

    def test_without_a_local_cloud_the_message_says_how_to_start_it(self) -> None:
        with pytest.raises(Unreachable, match="gpujob local start"):
            Rest(Settings()).call("GET", "http://127.0.0.1:9/x")


class TestOperations:
    def test_an_operation_is_awaited(self, api: Api) -> None:
        api.answers = [(200, {"name": "op"}), (200, {"name": "op", "done": True, "response": {"a": 1}})]
        rest = Rest(Settings(poll_interval_s=0.01))
        assert rest.wait(f"{api.url}/", {"name": "op"}, 10.0) == {"a": 1}
        assert [path for _, path, _ in api.seen] == ["/op?alt=json"] * 2

    def test_a_failed_operation_is_an_api_error(self, api: Api) -> None:
        with pytest.raises(ApiError, match="quota"):
            Rest(Settings()).wait(
                f"{api.url}/", {"name": "op", "done": True, "error": {"code": 8, "message": "quota"}}, 1
            )

    def test_an_operation_that_does_not_end_is_unfinished_not_failed(self, api: Api) -> None:
        api.answers = [(200, {"name": "op"})]
        with pytest.raises(Unfinished, match="still running after 0 s"):
            Rest(Settings(poll_interval_s=0.01)).wait(f"{api.url}/", {"name": "op"}, 0.0)

    def test_cancelling_stops_the_wait(self, api: Api) -> None:
        rest = Rest(Settings())
        rest.cancelled.set()
        with pytest.raises(Unfinished, match="cancelled"):
            rest.wait(f"{api.url}/", {"name": "op"}, 60.0)


def test_a_stack_that_is_meant_for_google_gets_one_message_that_says_so():
    (failure,) = check_settings({"project": "somebodys-project", "region": "europe-west4"})
    assert "meant for Google Cloud" in failure.reason
    assert "gpujob local env" in failure.reason
