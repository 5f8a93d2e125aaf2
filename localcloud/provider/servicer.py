"""The engine's calls, answered: `ResourceProviderServicer` of Pulumi's plugin protocol."""

from __future__ import annotations

from collections.abc import Callable
from importlib import metadata
from typing import Any

import grpc
from google.protobuf import empty_pb2
from pulumi.runtime.proto import plugin_pb2, provider_pb2, provider_pb2_grpc

from localcloud.provider import lifecycle, schema
from localcloud.provider.errors import ProviderError, Refused
from localcloud.provider.lifecycle import Partial, Subject
from localcloud.provider.products import TYPES
from localcloud.provider.resource import ResourceType
from localcloud.provider.rest import Rest
from localcloud.provider.settings import Settings, check_settings, settings_of
from localcloud.provider.status import init_failed
from localcloud.provider.values import Values, from_struct, to_struct
from localcloud.toolchain.google_provider import VERSION

_TIMEOUT_S = 1200.0
_KINDS = provider_pb2.PropertyDiff


def sdk_version() -> str:
    """The version of the SDK for whose programs this plugin stands in; the engine asks for that one."""
    try:
        return metadata.version("pulumi-gcp")
    except metadata.PackageNotFoundError:
        return VERSION


class Servicer(provider_pb2_grpc.ResourceProviderServicer):
    """One provider process; the engine starts one for each provider of a stack."""

    def __init__(self) -> None:
        self._rest: Rest | None = None
        self._settings = Settings()
        self._cancelled = False

    # -- the plugin ---------------------------------------------------------------------------------------------------

    def Handshake(self, request: Any, context: Any) -> Any:  # noqa: ARG002, N802
        return provider_pb2.ProviderHandshakeResponse()

    def Attach(self, request: Any, context: Any) -> Any:  # noqa: ARG002, N802
        return empty_pb2.Empty()

    def GetPluginInfo(self, request: Any, context: Any) -> Any:  # noqa: ARG002, N802
        return plugin_pb2.PluginInfo(version=sdk_version())

    def GetSchema(self, request: Any, context: Any) -> Any:  # noqa: ARG002, N802
        return provider_pb2.GetSchemaResponse(schema=schema.schema(sdk_version()))

    def Cancel(self, request: Any, context: Any) -> Any:  # noqa: ARG002, N802
        self.cancel()
        return empty_pb2.Empty()

    def cancel(self) -> None:
        """Let calls under way end soon: nothing is repeated or waited for any more."""
        self._cancelled = True
        if self._rest is not None:
            self._rest.cancelled.set()

    # -- configuration ------------------------------------------------------------------------------------------------

    def CheckConfig(self, request: provider_pb2.CheckRequest, context: Any) -> Any:  # noqa: ARG002, N802
        failures = check_settings(from_struct(request.news))
        return provider_pb2.CheckResponse(
            inputs=request.news,
            failures=[provider_pb2.CheckFailure(property=each.path, reason=each.reason) for each in failures],
        )

    def DiffConfig(self, request: provider_pb2.DiffRequest, context: Any) -> Any:  # noqa: ARG002, N802
        old, new = from_struct(request.old_inputs), from_struct(request.news)
        changed = sorted(key for key in {*old, *new} if old.get(key) != new.get(key))
        some = provider_pb2.DiffResponse.DIFF_SOME if changed else provider_pb2.DiffResponse.DIFF_NONE
        return provider_pb2.DiffResponse(changes=some, diffs=changed)

    def Configure(self, request: provider_pb2.ConfigureRequest, context: Any) -> Any:  # noqa: N802
        given = from_struct(request.args)
        try:
            self._settings = settings_of(given)
        except ProviderError as error:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        self._rest = Rest(self._settings)
        if self._cancelled:
            self._rest.cancelled.set()
        # acceptSecrets stays off: the engine then hands over plain values and marks the outputs itself.
        return provider_pb2.ConfigureResponse(supportsPreview=True)

    # -- resources ----------------------------------------------------------------------------------------------------

    def Check(self, request: provider_pb2.CheckRequest, context: Any) -> Any:  # noqa: N802
        def answer() -> Any:
            subject = self._subject(request)
            old, new = from_struct(request.olds), from_struct(request.news)
            inputs, failures = lifecycle.checked(subject, old, new, request.randomSeed)
            return provider_pb2.CheckResponse(
                inputs=to_struct(inputs),
                failures=[provider_pb2.CheckFailure(property=each.path, reason=each.reason) for each in failures],
            )

        return _answered(answer, context)

    def Diff(self, request: provider_pb2.DiffRequest, context: Any) -> Any:  # noqa: N802
        def answer() -> Any:
            subject = self._subject(request)
            olds, news = from_struct(request.olds), from_struct(request.news)
            old_inputs = from_struct(request.old_inputs)
            found, delete_first = lifecycle.diffed(subject, old_inputs, news, olds, list(request.ignoreChanges))
            some = provider_pb2.DiffResponse.DIFF_SOME if found else provider_pb2.DiffResponse.DIFF_NONE
            detailed: dict[str, provider_pb2.PropertyDiff] = {}
            for each in found:
                kind = f"{each.change.value}_REPLACE" if each.replaces else each.change.value
                detailed[each.path] = _KINDS(kind=getattr(_KINDS, kind), inputDiff=True)
            return provider_pb2.DiffResponse(
                changes=some,
                diffs=sorted({each.top for each in found}),
                replaces=sorted({each.top for each in found if each.replaces}),
                deleteBeforeReplace=delete_first,
                detailedDiff=detailed,
                hasDetailedDiff=True,
            )

        return _answered(answer, context)

    def Create(self, request: provider_pb2.CreateRequest, context: Any) -> Any:  # noqa: N802
        def answer() -> Any:
            subject, inputs = self._subject(request), from_struct(request.properties)
            if request.preview:
                return provider_pb2.CreateResponse(properties=to_struct(lifecycle.previewed(subject, inputs)))
            made, outputs = lifecycle.created(subject, self._calls(), inputs, request.timeout or _TIMEOUT_S)
            return provider_pb2.CreateResponse(id=made, properties=to_struct(outputs))

        return _answered(answer, context)

    def Read(self, request: provider_pb2.ReadRequest, context: Any) -> Any:  # noqa: N802
        def answer() -> Any:
            subject = self._subject(request)
            inputs, state = from_struct(request.inputs), from_struct(request.properties)
            found = lifecycle.read(subject, self._calls(), request.id, inputs, state)
            if found is None:
                return provider_pb2.ReadResponse(id="")
            return provider_pb2.ReadResponse(
                id=found.id, properties=to_struct(found.outputs), inputs=to_struct(found.inputs)
            )

        return _answered(answer, context)

    def Update(self, request: provider_pb2.UpdateRequest, context: Any) -> Any:  # noqa: N802
        def answer() -> Any:
            subject = self._subject(request)
            state, new, old = (from_struct(each) for each in (request.olds, request.news, request.old_inputs))
            if request.preview:
                return provider_pb2.UpdateResponse(properties=to_struct(lifecycle.previewed(subject, new, state)))
            timeout_s = request.timeout or _TIMEOUT_S
            outputs = lifecycle.updated(
                subject, self._calls(), request.id, old, new=new, state=state, timeout_s=timeout_s
            )
            return provider_pb2.UpdateResponse(properties=to_struct(outputs))

        return _answered(answer, context)

    def Delete(self, request: provider_pb2.DeleteRequest, context: Any) -> Any:  # noqa: N802
        def answer() -> Any:
            state: Values = from_struct(request.properties)
            timeout_s = request.timeout or _TIMEOUT_S
            lifecycle.deleted(self._subject(request), self._calls(), request.id, state, timeout_s)
            return empty_pb2.Empty()

        return _answered(answer, context)

    # -- what this plugin does not do ---------------------------------------------------------------------------------

    def Invoke(self, request: provider_pb2.InvokeRequest, context: Any) -> Any:  # noqa: N802
        context.abort(
            grpc.StatusCode.UNIMPLEMENTED,
            f"{request.tok}: this plugin has no functions, only resources. Give the value as configuration instead.",
        )

    def Parameterize(self, request: Any, context: Any) -> Any:  # noqa: ARG002, N802
        context.abort(grpc.StatusCode.UNIMPLEMENTED, "this plugin takes no parameters")

    def _subject(self, request: Any) -> Subject:
        kind, name, nested = _named(request.urn)
        return Subject(kind, name, nested, self._settings)

    def _calls(self) -> Rest:
        if self._rest is None:
            raise Refused("the provider is not configured yet (its endpoints are not known); nothing was sent")
        return self._rest


def _named(urn: str) -> tuple[ResourceType, str, bool]:
    """Type, name and whether it has a parent, from urn:pulumi:STACK::PROJECT::PARENT$TYPE::NAME."""
    _, _, types, name = urn.split("::", 3)
    parents, _, token = types.rpartition("$")
    if token not in TYPES:
        raise Refused(
            f"{token} ({name}) is not a type that this plugin can make. It knows: {', '.join(sorted(TYPES))}. "
            "Leave the resource out of local stacks, or install Google's own provider plugin."
        )
    return TYPES[token], name, bool(parents)


def _answered(answer: Callable[[], Any], context: Any) -> Any:
    """Run `answer`; what it raises becomes the call's status, as text for a person and without a stack."""
    try:
        return answer()
    except Partial as error:
        return context.abort_with_status(init_failed(error))
    except ProviderError as error:
        return context.abort(grpc.StatusCode.UNKNOWN, str(error))
