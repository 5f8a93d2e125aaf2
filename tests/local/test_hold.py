"""The local cloud can stand still at a change: it took effect, nobody was told, and nothing later happens meanwhile."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from localcloud.testing import Cloud
from tests.local.conftest import PROJECT, Caller, until

ACCOUNTS = f"/iam/v1/projects/{PROJECT}/serviceAccounts"


def create(call: Caller, name: str) -> int:
    return call("POST", ACCOUNTS, {"accountId": name, "serviceAccount": {}}).status_code


def there(call: Caller) -> list[str]:
    return [account["email"].split("@")[0] for account in call.ok("GET", ACCOUNTS).get("accounts", [])]


def test_the_change_took_effect_and_its_answer_and_later_changes_wait(cloud: Cloud, call: Caller) -> None:
    cloud.ask("POST", "hold", {"after": 2})
    assert create(call, "first-account") == 200
    with ThreadPoolExecutor() as pool:
        second = pool.submit(create, call, "second-account")
        until(lambda: cloud.ask("GET", "hold")["holding"], "it stands still")
        third: Future[int] = pool.submit(create, call, "third-account")
        until(lambda: cloud.ask("GET", "hold")["changes"] == 3, "the third change has come")
        assert there(call) == ["first-account", "second-account"]
        assert not second.done()
        assert not third.done()
        cloud.ask("POST", "hold", {})
        assert (second.result(timeout=30), third.result(timeout=30)) == (200, 200)
    assert there(call) == ["first-account", "second-account", "third-account"]


def test_reads_are_not_counted(cloud: Cloud, call: Caller) -> None:
    cloud.ask("POST", "hold", {"after": 1})
    call.ok("GET", ACCOUNTS)
    call.ok("POST", f"/crm/v1/projects/{PROJECT}:getIamPolicy", {})
    assert cloud.ask("GET", "hold") == {"changes": 0, "holding": False}


@pytest.mark.parametrize("after", [0, -1, "2"])
def test_what_is_no_number_of_a_change_is_refused(call: Caller, after: object) -> None:
    assert call("POST", "/_localcloud/hold", {"after": after}).status_code == 400
