"""What a create wants: identity, mark, sizes and bootstrap data, known before anything is asked for."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Protocol, Self
from uuid import uuid4

from vsphere_events.error import Detail
from vsphere_events.machine import CreateMachineRequest
from vsphere_events.provider_spec import CreateSpec
from vsphere_functions.vsphere.identity import Mark, instance_uuid
from vsphere_functions.vsphere.machine import Machine
from vsphere_functions.vsphere.state import State
from vsphere_functions.vsphere.stores import Stores
from vsphere_functions.vsphere.vcenter import VCenter


class Boot(Protocol):
    """What a guest boots from; `macs` are the addresses of the cards that the spec describes."""

    @property
    def wrong(self) -> Sequence[Detail]:
        """What of it could not reach the guest whole."""

    def guestinfo(self, macs: Sequence[str]) -> Mapping[str, str]:
        """Return extraConfig keys and values."""

    def properties(self, macs: Sequence[str]) -> Mapping[str, str]:
        """Return values for vApp properties of these ids."""

    def mounting(self, disks: Sequence[str]) -> Self:
        """Return the same, knowing the uuid of the disk of each of the spec's volumes, in their order."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """One machine as its request describes it; `boot` knows the bootstrap data, None is no such data.

    `stores` are those that the spec's volumes can be in; `maker` is what tells the request from all others that ever
    wanted this machine.
    """

    machine: str
    owner: str
    spec: CreateSpec
    digest: str
    instance_uuid: str
    incarnation: str
    told: str | None = field(repr=False)
    boot: Boot | None = field(repr=False, default=None)
    stores: Stores = field(repr=False, default_factory=Stores)
    maker: str = ""

    @classmethod
    def of(cls, request: CreateMachineRequest, maker: str = "") -> Self:
        """Read a request; the BIOS uuid is made fresh, so that no later machine of the name has it again."""
        spec, owner = request.provider_spec, str(request.provider_spec.owner)
        return cls(
            machine=request.machine_name,
            owner=owner,
            spec=spec,
            digest=spec_digest(spec),
            instance_uuid=instance_uuid(owner, request.machine_name),
            incarnation=str(uuid4()),
            told=request.last_known_state,
            maker=maker,
        )

    def booting_from(self, boot: Boot) -> Self:
        """Return the same machine with its bootstrap data."""
        return replace(self, boot=boot)

    def finding_volumes_in(self, stores: Stores) -> Self:
        """Return the same machine with the stores of its vCenter."""
        return replace(self, stores=stores)

    def mounting(self, disks: Sequence[str]) -> Self:
        """Return the same machine, its guest told of its volumes: the uuid of each one's disk, in the spec's order.

        To be called before `record_birth` when the spec has volumes; a uuid as vSphere spells it.
        """
        return replace(self, boot=self.boot.mounting(disks)) if self.boot else self

    @property
    def wrong(self) -> list[Detail]:
        """What is wrong with the bootstrap data."""
        return list(self.boot.wrong) if self.boot else []

    def state(self, vcenter: VCenter) -> State:
        """Return what the caller remembers of this machine on this vCenter, or a fresh state.

        What a delete has detached was another incarnation's.
        """
        told = State.of(self.told, vcenter.session.instance_uuid, self.instance_uuid)
        return told.having_detached(None)

    def state_at(self, vcenter: VCenter, phase: str, machine: Machine) -> State:
        """Return the state of the machine at a phase."""
        return self.state(vcenter).at(phase, vm=machine.ref.id, uuid=machine.uuid)

    def mark(self, placement: str) -> Mark:
        """Return the mark that the clone is born with."""
        return Mark(
            owner=self.owner,
            machine=self.machine,
            instance_uuid=self.instance_uuid,
            uuid=self.incarnation,
            incarnation=self.incarnation,
            digest=self.digest,
            region=self.spec.region,
            placement=placement,
            maker=self.maker or None,
        )


def spec_digest(spec: CreateSpec) -> str:
    """Return the SHA-256 over what the spec asks for; a field left at its default does not count."""
    asked = spec.model_dump(mode="json", by_alias=True, exclude_defaults=True, exclude_none=True)
    return sha256(json.dumps(asked, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
