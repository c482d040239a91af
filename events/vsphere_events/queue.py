"""How far the requests of a function have come, as workers tell it on `queue_subject`: a client's place in line."""

from typing import Annotated

from pydantic import Field

from vsphere_events.model import Int, Model


class QueueState(Model):
    """The payload of the subject `vsphere.progress.<vcenter>.<function>._queue`.

    Requests up to `sequence`, which numbers all requests as their PubAcks do, have been begun; `waiting` requests of
    the function have not. Where several workers take part, those that others are at work on count as waiting.
    """

    sequence: Annotated[Int, Field(ge=0)]
    waiting: Annotated[Int, Field(ge=0)]

    def ahead_of(self, sequence: int) -> int | None:
        """Say how many requests are before the one whose PubAck had this sequence, at most; None once it has begun."""
        if sequence <= self.sequence:
            return None
        return min(max(self.waiting - 1, 0), sequence - self.sequence - 1)
