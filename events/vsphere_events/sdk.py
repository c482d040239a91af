"""To and from the CloudEvents SDK's objects (1.12, the line that functions-framework pins)."""

from cloudevents.http import CloudEvent as SdkEvent

from vsphere_events.cloud_event import NO_DATA, CloudEvent, canonical, data_of, is_json, make


def to_sdk(event: CloudEvent) -> SdkEvent:
    """Hand an event to code that uses the SDK: attributes as text, and None when there is no data."""
    attributes = {name: canonical(value) for name, value in event.attributes().items()}
    made = SdkEvent(attributes, None if event.data is NO_DATA else event.data)
    if event.time is None:
        del made["time"]  # the SDK makes one up
    return made


def from_sdk(event: SdkEvent) -> CloudEvent:
    """Take an event of the SDK, which checks little: InvalidArgument as for any event that comes in."""
    attributes, data = event.get_attributes(), event.get_data()
    media = attributes.get("datacontenttype")
    if data is None:
        data = NO_DATA
    elif isinstance(data, bytes):
        data = data_of(data, media)
    elif isinstance(data, str) and media is not None and not is_json(media):
        data = data.encode("utf-8")
    return make(attributes, data)
