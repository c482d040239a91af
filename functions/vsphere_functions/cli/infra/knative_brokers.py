"""Knative Eventing: a broker, and a Trigger for each function's request; two overlays, by what the broker stands on."""

from vsphere_events.subjects import Kind, event_type
from vsphere_functions.cli.infra import facts, pod
from vsphere_functions.cli.infra.kubernetes import kustomization
from vsphere_functions.cli.infra.pod import Value
from vsphere_functions.cli.infra.text import documents
from vsphere_functions.hosts.nats_names import DAY

DEAD = f"{facts.NAME}-dead-letters"
CHANNEL = f"{facts.NAME}-channel"

_RETRIES = 10
_PATIENCE = facts.CALL_SECONDS + 30
"""Longer than a call, or the broker delivers again what still runs."""

_TRIGGERS = """
A request goes to its function. Results come back into the broker under types of their own, which no trigger here
matches: bind yours to io.vspherefunctions.<function>.succeeded.v1 and ….failed.v1.
Ten retries take 34 minutes: long enough for a call that goes on beyond its time, and for all attempts of its own.
"""
_IN_MEMORY = """
For trying out: what is under way, and the dead letters that nobody subscribes to, end with the pods of the channel.
"""
_JETSTREAM = """
The broker fetches one event at a time, since it handles them one after another and each may take the whole
time-out, after which JetStream would deliver the others again. Replicas of the filter bring more at once.
It ends events answered with another 4xx than 408 and 429 at once; the functions answer so only to what can never
work.
"""


def files(_site: facts.Site) -> dict[str, str]:
    """Give the files of both overlays."""
    in_memory = {"apiVersion": "messaging.knative.dev/v1", "kind": "InMemoryChannel"}
    kept = {"stream": {"config": {"retention": "Limits", "maxAge": f"{int(30 * DAY / 3600)}h"}}}
    jetstream = {"apiVersion": "messaging.knative.dev/v1alpha1", "kind": "NatsJetStreamChannel", "spec": kept}
    return {
        **_overlay(
            "in-memory",
            documents(_IN_MEMORY, _channel_config(in_memory), _channel_broker(), _dead_letters(in_memory)),
        ),
        **_overlay("nats-jetstream", documents(_JETSTREAM, _jetstream_broker(), _dead_letters(jetstream))),
    }


def _overlay(name: str, broker: str) -> dict[str, str]:
    folder = f"knative/overlays/{name}"
    parts = kustomization(["../../base", "broker.yaml", "triggers.yaml"])
    triggers = [_trigger(target, name) for target, name in facts.functions().items()]
    return {
        f"{folder}/kustomization.yaml": documents("The functions, a broker and its triggers.", parts),
        f"{folder}/broker.yaml": broker,
        f"{folder}/triggers.yaml": documents(_TRIGGERS, *triggers),
    }


def _trigger(target: str, name: str) -> Value:
    return {
        "apiVersion": "eventing.knative.dev/v1",
        "kind": "Trigger",
        "metadata": pod.metadata(name, "trigger"),
        "spec": {
            "broker": facts.NAME,
            "filter": {"attributes": {"type": event_type(target, Kind.REQUEST)}},
            "subscriber": {"ref": {"apiVersion": "serving.knative.dev/v1", "kind": "Service", "name": name}},
            "delivery": {
                "retry": _RETRIES,
                "backoffPolicy": "exponential",
                "backoffDelay": "PT2S",
                "timeout": f"PT{_PATIENCE}S",
                "deadLetterSink": {
                    "ref": {"apiVersion": "messaging.knative.dev/v1", "kind": "Channel", "name": DEAD}
                },
            },
        },
    }


def _broker(broker_class: str, annotations: Value, spec: Value) -> Value:
    return {
        "apiVersion": "eventing.knative.dev/v1",
        "kind": "Broker",
        "metadata": pod.metadata(
            facts.NAME,
            "broker",
            annotations={"eventing.knative.dev/broker.class": broker_class, **annotations},
        ),
        "spec": spec,
    }


def _channel_broker() -> Value:
    config = {"apiVersion": "v1", "kind": "ConfigMap", "name": CHANNEL}
    return _broker("MTChannelBasedBroker", {}, {"config": config})


def _jetstream_broker() -> Value:
    one_by_one = {"filter": {"replicas": 4, "env": [{"name": "CONSUMER_FETCH_BATCH_SIZE", "value": "1"}]}}
    key = "natsjetstream.eventing.knative.dev/config"
    return _broker("NatsJetStreamBroker", {key: facts.as_json(one_by_one)}, {})


def _channel_config(channel: Value) -> Value:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": pod.metadata(CHANNEL, "broker"),
        "data": {"channel-template-spec": "".join(f"{key}: {value}\n" for key, value in channel.items())},
    }


def _dead_letters(channel: Value) -> Value:
    return {
        "apiVersion": "messaging.knative.dev/v1",
        "kind": "Channel",
        "metadata": pod.metadata(DEAD, "broker"),
        "spec": {"channelTemplate": channel},
    }
