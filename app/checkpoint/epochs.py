"""Claiming an epoch on a line, and finding out that a newer attempt took over.

An attempt that was thought dead may wake up just before its commit. It cannot commit any more:

    old attempt                               new attempt
    1. lays its manifest ready                a. creates its ledger document
    2. looks at the ledger: superseded?       b. deletes what older attempts have laid ready
    3. lets the manifest come to be           c. looks for what to resume from

If 2 does not see a, then 1 came before b, so b deletes what 3 needs. 3 is one act that fails once that is gone, and if
it comes before b, then c finds the commit. This rests on listings that show what was created before, and on that one
act: Cloud Storage has both (objects.move), and so has a disk (link). A bucket mount has no such act: there an old
attempt which falls asleep between 2 and 3 commits once more, and that ranks below all of the new attempt's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.checkpoint.names import CHECKPOINTS, LEDGER, Attempt, CheckpointName, checkpoints_among
from app.checkpoint.storage.store import STAGED
from app.contract import Refusal

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.checkpoint.storage.store import Store

CLAIMS = 50
"""So many tries to claim an epoch: far more than attempts that start at once."""


class Superseded(Refusal):
    """A newer attempt works on this line. What this one committed stays valid; it must not write any more."""


def claim(store: Store, document: Callable[[Attempt], bytes]) -> Attempt:
    """Take an epoch one above any seen, by creating `document(attempt)` in the ledger. Raises OSError, Refusal.

    Without compare-and-swap two attempts may see the same highest epoch. Both then look again, and the one with the
    smaller nonce moves up; even if both miss each other, (epoch, nonce) orders them and the smaller finds itself
    superseded. When this returns no older attempt can commit any more (on a bucket mount: none that looks again).
    """
    hindered = ""
    for _ in range(CLAIMS):
        attempt = Attempt(_highest_epoch(store) + 1)
        try:
            store.publish(attempt.document, document(attempt))
        except FileExistsError as taken:
            hindered = f"{attempt.document} could not be created ({taken})"
            continue
        newer = superseded_by(store, attempt)
        if newer is None:
            _fence(store, attempt)
            return attempt
        store.delete(attempt.document)
        hindered = f"attempt {newer} was quicker than {attempt}"
    raise Refusal(
        f"No epoch could be claimed in {CLAIMS} tries: {hindered}. Checkpoints are untouched. Look at the line's "
        "ledger/ and .staging/ for what does not belong there; if many executions share the line, cancel all but one."
    )


def _fence(store: Store, attempt: Attempt) -> None:
    """Take from older attempts the manifests that they have laid ready. Raises OSError."""
    for entry in store.list(STAGED):
        staged = CheckpointName.of_staged(entry.name)
        if staged and staged.attempt < attempt:
            store.delete(entry.name)


def superseded_by(store: Store, attempt: Attempt) -> Attempt | None:
    """The newest attempt on the line if that is not `attempt`."""
    newest = max(attempts(store), default=attempt)
    return newest if newest > attempt else None


def refuse_if_superseded(store: Store, attempt: Attempt) -> None:
    if newer := superseded_by(store, attempt):
        raise Superseded(
            f"Attempt {newer} works on this checkpoint line now, so attempt {attempt} stops and writes nothing more. "
            "Its earlier checkpoints are safe. If two executions share the line, cancel one: gpujob cancel EXECUTION"
        )


def attempts(store: Store) -> list[Attempt]:
    """Every attempt that claimed an epoch, oldest first. The claim is the document's name; its content may be torn."""
    return sorted(found for entry in store.list(LEDGER) if (found := Attempt.of_document(entry.name)))


def _highest_epoch(store: Store) -> int:
    committed = checkpoints_among(store.list(CHECKPOINTS))
    epochs = [each.epoch for each in (*committed, *attempts(store))]
    return max(epochs, default=0)
